import doctest

import numpy as np
import pytest
from counting import count
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from layouts import floats, lay_out

import accel.kernels
from accel.cost import Cost
from accel.kernels import matmul

FORMS = [
    matmul.triple_loop,
    matmul.row_dot,
    matmul.outer_product,
    matmul.vectorized,
    matmul.tiled,
    matmul.tiled_loops,
    matmul.packed,
]
DTYPES = st.sampled_from(["float16", "float32", "float64"])


@st.composite
def operands(draw):
    shapes = draw(hnp.mutually_broadcastable_shapes(signature="(m,k),(k,n)->(m,n)", max_dims=2, max_side=4, min_side=0))
    return [draw(floats(shape, draw(DTYPES), 10)) for shape in shapes.input_shapes]


@pytest.mark.parametrize("form", FORMS)
@given(pair=operands())
@settings(max_examples=60, deadline=None)  # the first example of a compiled form compiles it
def test_forms_equal_numpy(form, pair):
    a, b = pair
    before = a.copy(), b.copy()
    got = form(a, b)
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    assert got.dtype == np.matmul(a, b).dtype
    assert got.shape == exact.shape
    tolerance = {2: 1.0, 4: 1e-3, 8: 1e-11}[got.itemsize]
    np.testing.assert_allclose(got, exact, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("int64", "int32"), ("bool", "bool"), ("uint8", "float32")])
def test_other_dtypes_as_numpy(form, dtypes):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 100, shape).astype(t) for shape, t in zip([(5, 9), (9, 4)], dtypes, strict=True))
    np.testing.assert_array_equal(form(a, b), a @ b)  # int8 wraps around in both
    assert form(a, b).dtype == (a @ b).dtype


@pytest.mark.parametrize("form", [matmul.tiled, matmul.tiled_loops])
@pytest.mark.parametrize("tile_size", [1, 7, 64, 1000, np.int64(13)])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 14, 21), (65, 130, 3), (20, 9, 33)])
def test_tiles_need_not_divide_the_shape(form, tile_size, sizes):
    m, k, n = sizes
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    np.testing.assert_allclose(form(a, b, tile_size), a @ b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(form(a.T.copy().T, b, tile_size=tile_size), a @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("tile_size", "error"), [(0, ValueError), (-3, ValueError), (8.0, TypeError), (True, TypeError)]
)
@pytest.mark.parametrize("form", [matmul.tiled, matmul.tiled_loops])
def test_bad_tile_size_is_refused(form, tile_size, error):
    with pytest.raises(error, match="tile_size must be"):
        form(np.eye(2), np.eye(2), tile_size=tile_size)
    with pytest.raises(error, match="tile_size must be"):
        form.cost(np.eye(2), np.eye(2), tile_size=tile_size)


@pytest.mark.parametrize("form", FORMS)
def test_zero_sizes(form):
    np.testing.assert_array_equal(form(np.ones((2, 3, 0)), np.ones((0, 4))), np.zeros((2, 3, 4)))
    np.testing.assert_array_equal(form(np.ones((3, 0)), np.ones((0, 4)), out=np.ones((3, 4))), np.zeros((3, 4)))
    assert form(np.ones((0, 3)), np.ones((3, 4))).shape == (0, 4)
    assert form(np.ones((0, 2, 3)), np.ones((3, 4))).shape == (0, 2, 4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ((2, 3), (4, 5), r"got \(2, 3\) @ \(4, 5\): inner dimensions 3 and 4 differ; transpose one\?"),
        ((3,), (3, 2), r"got \(3,\) @ \(3, 2\): both need two dimensions"),
        ((2, 3), (3,), r"got \(2, 3\) @ \(3,\): both need two dimensions"),
        ((), (2, 2), r"got \(\) @ \(2, 2\)"),
        ((2, 4, 3), (3, 3, 5), r"leading axes \(2,\) and \(3,\) do not broadcast"),
    ],
)
def test_shapes_that_do_not_match_are_named(form, a, b, says):
    with pytest.raises(ValueError, match=says):
        form(np.ones(a), np.ones(b))
    with pytest.raises(ValueError, match=says):
        form.cost(np.ones(a), np.ones(b))


@pytest.mark.parametrize("form", FORMS)
def test_complex_is_refused(form):
    with pytest.raises(TypeError, match="b must hold real numbers; got dtype complex128"):
        form(np.eye(2), np.eye(2) * 1j)


@pytest.mark.parametrize("form", FORMS)
def test_out_of_any_layout_is_filled_and_returned(form):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, 5, 6)), rng.standard_normal((6, 4))
    for layout in ("C", "F", "strided", "reversed"):
        out = lay_out(np.full((3, 5, 4), np.nan), layout)
        assert form(a, b, out=out) is out
        np.testing.assert_allclose(out, a @ b, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("which", ["a", "b", "both"])
def test_out_may_overlap_the_operands(form, which):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((6, 6)), rng.standard_normal((6, 6))
    if which == "both":
        b = a
    expected = a @ b
    np.testing.assert_allclose(form(a, b, out=b if which == "b" else a.T if which == "a" else a), expected, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_bad_out_is_refused(form):
    a = np.eye(2)
    with pytest.raises(ValueError, match=r"\(2, 2\); got \(2,\)"):
        form(a, a, out=np.empty(2))
    with pytest.raises(TypeError, match="float64; got float32"):
        form(a, a, out=np.empty((2, 2), np.float32))
    with pytest.raises(ValueError, match="read-only"):
        form(a, a, out=lay_out(np.eye(2), "read-only"))


A, B = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)  # 24 and 48 bytes; the result has 8 elements, 32 bytes


def test_costs_of_a_small_product():
    assert matmul.vectorized.cost(A, B) == Cost(48, 0, 72, 32, 32, calls=1)
    assert matmul.triple_loop.cost(A, B) == Cost(48, 0, 72, 32, 32, interpreted=24)
    # compiled forms are one call each, whatever they do inside
    assert matmul.tiled_loops.cost(A, B, tile_size=2) == Cost(48, 0, 72, 32, 32, calls=1)
    assert matmul.packed.cost(A, B, threads=2) == Cost(48, 0, 72, 32, 32, calls=1)
    assert matmul.packed.cost(B.T, B).bytes_read == 2 * B.nbytes
    assert matmul.packed.cost(square := np.ones((4, 4)), square).bytes_read == square.nbytes
    # eight dot products of three elements: 6 FLOPs and 24 bytes each
    assert matmul.row_dot.cost(A, B) == Cost(48, 0, 192, 32, 32, calls=8, interpreted=8)
    # three outer products, 8 FLOPs, (2 + 4) * 4 bytes read; two additions, 8 FLOPs, 64 bytes read
    assert matmul.outer_product.cost(A, B) == Cost(24 + 16, 0, 72 + 128, 160, 96, calls=5)
    # tiles of 2: one row and two columns of tiles, two steps; A is read twice, B once; two additions
    assert matmul.tiled.cost(A, B, tile_size=2) == Cost(48 + 8, 0, 48 + 48 + 64, 64 + 32, 64, calls=6)
    assert matmul.tiled.cost(A, B) == matmul.vectorized.cost(A, B)


def test_costs_of_a_batch():
    a, b = np.ones((5, 1, 2, 3), np.float32), np.ones((6, 3, 4), np.float32)
    for form in (matmul.vectorized, matmul.tiled_loops, matmul.packed):
        assert form.cost(a, b) == Cost(30 * 48, 0, 5 * 24 + 6 * 48, 30 * 32, 30 * 32, calls=1)
    for form in (matmul.row_dot, matmul.outer_product, matmul.tiled):
        assert form.cost(a, b) == form.cost(A, B) * 30


def test_intensity_of_the_square_product_is_a_sixth_of_n():
    a, b = np.empty((1536, 1536), np.float32), np.empty((1536, 1536), np.float32)
    assert matmul.vectorized.cost(a, b).intensity == 256


@pytest.mark.parametrize("form", [matmul.outer_product, matmul.vectorized, matmul.tiled])
@given(pair=operands(), tile_size=st.integers(1, 5))
@settings(max_examples=60)
def test_costs_equal_what_is_counted(form, pair, tile_size):
    a, b = (x.astype(x.dtype.newbyteorder("=")) for x in pair)
    tile = {"tile_size": tile_size} if form is matmul.tiled else {}
    if a.shape[-1] and (a @ b).size:
        assert count(form, a, b, **tile) == form.cost(a, b, **tile)


def test_costs_need_shapes_only():
    class Shape:
        shape, dtype, size, nbytes, itemsize = (8, 8), np.dtype("float32"), 64, 256, 4

    for form in FORMS:
        assert form.cost(Shape(), Shape()) == form.cost(np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32))


def test_every_form_is_registered():
    families = [getattr(accel.kernels, name) for name in accel.kernels.__all__ if name != "KERNELS"]
    names = {getattr(family, name) for family in families for name in family.__all__ if name != "reference"}
    public = {kernel for kernel in names if hasattr(kernel, "cost")}
    public.remove(accel.kernels.access.chase)  # compiled only: it has no NumPy form to fall back on
    assert set(accel.kernels.KERNELS) == public
    assert len(accel.kernels.KERNELS) == len(public)


@pytest.mark.parametrize("module", [matmul, accel.kernels])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0
