import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel import cache
from accel.cache import nests


def flat(stream):
    """Return (array, is_write, address) of every access."""
    seen = []
    for block in stream:
        for address, number in zip(block.addresses.tolist(), block.references.tolist(), strict=True):
            reference = stream.references[number]
            seen.append((reference.array, reference.is_write, address))
    return seen


def product_in_python(a, b, c, order, tile):
    """The loops of a product written out, the other way to the same accesses."""
    (m, depth), n = a.shape, b.shape[1]
    sizes = {"i": m, "j": n, "k": depth}
    side = tile or max(sizes.values())
    inner = order[2]
    # Before, in and after the innermost loop; a small letter reads C, a capital writes it.
    before, within, after = {"i": ("B", "AcC", ""), "j": ("A", "BcC", ""), "k": ("c" if tile else "", "AB", "C")}[inner]
    seen = []

    def touch(names, at):
        for name in names:
            array, row, column = {"A": (a, "i", "k"), "B": (b, "k", "j")}.get(name, (c, "i", "j"))
            seen.append((array.name, name == "C", array.address(at[row], at[column])))

    for corner in itertools.product(*(range(0, sizes[v], side) for v in order)):
        ranges = [range(first, min(first + side, sizes[v])) for v, first in zip(order, corner, strict=True)]
        for outer, middle in itertools.product(*ranges[:2]):
            at = {order[0]: outer, order[1]: middle, inner: 0}
            touch(before, at)
            for step in ranges[2]:
                touch(within, at | {inner: step})
            touch(after, at)
    return seen


@given(
    st.tuples(*[st.integers(1, 7)] * 3),
    st.sampled_from(["ijk", "ikj", "jik", "jki", "kij", "kji"]),
    st.sampled_from([None, 1, 2, 3, 8]),
    st.sampled_from([4, 16, 1000]),
)
def test_products_make_the_accesses_of_their_loops(monkeypatch_blocks, shape, order, tile, block):
    m, k, n = shape
    a, b, c = cache.place({"A": (m, k), "B": (k, n), "C": (m, n)}, leading_dimension=9)
    monkeypatch_blocks(block)
    stream = cache.matmul(a, b, c, order=order, tile_size=tile)
    expected = product_in_python(a, b, c, order, tile)
    assert flat(stream) == expected
    assert stream.count == len(expected)


@pytest.fixture(scope="module")
def monkeypatch_blocks():
    """Let blocks be short, so that small loops are cut up too."""
    before = nests.BLOCK_ACCESSES

    def shorten(accesses):
        nests.BLOCK_ACCESSES = accesses

    yield shorten
    nests.BLOCK_ACCESSES = before


@given(st.tuples(st.integers(1, 9), st.integers(1, 9)), st.sampled_from([None, 1, 3, 20]))
def test_a_transpose_reads_and_writes_each_element_once(shape, tile):
    a, b = cache.place({"A": shape, "B": shape[::-1]})
    stream = cache.transpose(a, b, tile_size=tile)
    side = tile or 100
    expected = [
        (name, write, address)
        for i0, j0 in itertools.product(range(0, shape[0], side), range(0, shape[1], side))
        for i, j in itertools.product(range(i0, min(i0 + side, shape[0])), range(j0, min(j0 + side, shape[1])))
        for name, write, address in (("A", False, a.address(i, j)), ("B", True, b.address(j, i)))
    ]
    assert flat(stream) == expected
    assert stream.count == len(expected)


def test_walks_go_where_they_say():
    [x] = cache.place({"x": (2, 40)}, np.float64)
    assert [a for _, _, a in flat(cache.sequential(x, write=True))] == list(range(0, 640, 8))
    assert [a for _, _, a in flat(cache.strided(x, 16))] == [0, 128, 256, 320, 448, 576]
    assert [a for _, _, a in flat(cache.sequential(x.transposed))][:4] == [0, 320, 8, 328]


def test_a_random_walk_stays_in_its_array_and_repeats():
    [x] = cache.place({"x": (30, 7)}, leading_dimension=9, start=4096)
    walk = cache.random(x, count=100_000)
    first, again = flat(walk), flat(walk)
    assert first == again
    assert len(first) == walk.count == 100_000
    places = {x.address(i, j) for i in range(30) for j in range(7)}
    assert {address for _, _, address in first} == places
    assert flat(cache.random(x, count=9, seed=1)) != first[:9]


def test_an_elementwise_pass_touches_inputs_then_output():
    x, y = cache.place({"x": 2, "y": 2}, alignment=8)
    assert flat(cache.elementwise([x, x], y)) == [
        ("x", False, 0), ("x", False, 0), ("y", True, 8), ("x", False, 4), ("x", False, 4), ("y", True, 12),
    ]  # fmt: skip
    assert flat(cache.elementwise([], x)) == [("x", True, 0), ("x", True, 4)]


def test_a_long_stream_comes_in_blocks_of_bounded_size():
    stream = cache.matmul(*cache.square_matrices(30_000))
    assert stream.count == 30_000**2 * 60_001
    blocks = list(itertools.islice(stream, 50))
    assert max(block.offsets.size for block in blocks) <= nests.BLOCK_ACCESSES


def test_your_own_addresses_keep_their_order_sizes_and_kinds():
    [x] = cache.place({"x": 4}, start=64, alignment=64)
    stream = cache.accesses(
        np.array([70, 3, 64], np.uint16), size_bytes=[1, 2, 4], writes=[True, False, False], arrays=[x]
    )
    assert flat(stream) == [("x", True, 70), ("elsewhere", False, 3), ("x", False, 64)]
    assert [stream.references[number].size_bytes for block in stream for number in block.references] == [1, 2, 4]


@pytest.mark.parametrize("order", [">i8", "<i4", "u1"])
def test_addresses_of_any_integer_type_and_layout(order):
    addresses = np.arange(40).astype(order)[::-2]
    assert [a for _, _, a in flat(cache.accesses(addresses))] == list(range(39, 0, -2))


def test_addresses_can_come_in_pieces_again_and_again():
    def pieces():
        return (np.arange(3) + 10 * turn for turn in range(2))

    stream = cache.accesses(pieces, writes=True)
    assert stream.count is None
    assert flat(stream) == flat(stream) == [("elsewhere", True, a) for a in (0, 1, 2, 10, 11, 12)]


def test_no_addresses_are_a_stream_too():
    assert flat(cache.accesses([])) == []


def test_streams_follow_each_other():
    x, y = cache.place({"x": 2, "y": 2}, alignment=8)
    both = cache.sequential(x) + cache.sequential(y, write=True) + cache.sequential(x)
    assert both.count == 6
    assert [name for name, _, _ in flat(both)] == ["x", "x", "y", "y", "x", "x"]
    assert [write for _, write, _ in flat(both)] == [False, False, True, True, False, False]
    elsewhere = cache.place({"x": 2}, start=4096)[0]
    with pytest.raises(ValueError, match="same array by 'x'"):
        both + cache.sequential(elsewhere)
    with pytest.raises(TypeError):
        both + 3


MATRICES = cache.square_matrices(4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cache.accesses([1.0]), TypeError, "integers; got float64"),
        (lambda: cache.accesses([True]), TypeError, "integers; got bool"),
        (lambda: cache.accesses([-1, 5]), ValueError, "from 0 to below .*got -1 to 5"),
        (lambda: cache.accesses(np.array([2**63], np.uint64)), ValueError, "from 0 to below"),
        (lambda: cache.accesses([2**62 - 1], size_bytes=8), ValueError, "end at an address"),
        (lambda: cache.accesses([[1]]), ValueError, "sequence; got shape"),
        (lambda: cache.accesses([1], size_bytes=0), ValueError, "size_bytes must be at least 1; got 0"),
        (lambda: cache.accesses([1], size_bytes=4.0), TypeError, "size_bytes must be integers; got float64"),
        (lambda: cache.accesses([1, 2], size_bytes=[4]), ValueError, "one for each of 2"),
        (lambda: cache.accesses([1], writes=1), TypeError, "writes must be booleans; got int64"),
        (lambda: cache.accesses([1], arrays=[MATRICES[0]] * 2), ValueError, "names of their own"),
        (lambda: cache.accesses([1], arrays=cache.place({"x": 2}) + cache.place({"y": 2})), ValueError, "not overlap"),
        (lambda: list(cache.accesses(lambda: [[-1]])), ValueError, "from 0 to below"),
        (lambda: cache.accesses(lambda: [[1]], writes=[True]), TypeError, "pieces must be True or False"),
        (lambda: cache.accesses(lambda: [[1]], size_bytes=[4]), TypeError, "pieces must be a whole number"),
        (lambda: cache.matmul(*MATRICES, order="iij"), ValueError, "order must be one of ijk"),
        (lambda: cache.matmul(*MATRICES, tile_size=0), ValueError, "tile_size must be at least 1"),
        (lambda: cache.matmul(*cache.place({"A": (2, 3), "B": (2, 3), "C": (2, 3)})), ValueError, "takes shapes"),
        (
            lambda: cache.matmul(MATRICES[0], MATRICES[1], cache.square_matrices(4, "ZA")[1]),
            ValueError,
            "own; got A, B",
        ),
        (lambda: cache.transpose(*cache.place({"A": (2, 3), "B": (2, 3)})), ValueError, "has shape .3, 2."),
        (lambda: cache.elementwise(cache.place({"x": 3}), *cache.place({"y": 4})), ValueError, "one shape"),
        (lambda: cache.strided(MATRICES[0], 0), ValueError, "step must be at least 1"),
        (lambda: cache.random(MATRICES[0], 2.5), TypeError, "count must be a whole number"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_too_many_kinds_of_access_are_refused():
    with pytest.raises(ValueError, match="at most 60000 kinds"):
        cache.accesses(np.zeros(60_001, np.int64), size_bytes=np.arange(1, 60_002))
