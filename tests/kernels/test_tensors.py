"""Kernels work on objects that carry an ndarray in `.data`, and give back the same kind."""

import array
import doctest
import inspect

import numpy as np
import pytest
from samples import arguments_of, name_of, takes_out

import accel
from accel import tensors
from accel.cost import Cost, costs
from accel.kernels import KERNELS
from accel.tensors import is_tensor

FORMS = pytest.mark.parametrize("kernel", KERNELS, ids=name_of)


class Tensor:
    """What a course's own framework has: data, its shape, and no protocol of NumPy's."""

    def __init__(self, data):
        self.data = np.array(data)
        self.shape = self.data.shape

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("a kernel converted the tensor and did not look into it")


class Parameter(Tensor):
    """A kind of tensor."""


class Other:
    """Another framework's: data alone."""

    def __init__(self, data):
        self.data = data


def as_tensors(arguments, kind=Tensor):
    return [kind(x) if isinstance(x, np.ndarray) else x for x in arguments]


@FORMS
def test_tensors_give_a_tensor_with_the_values_of_the_arrays(kernel):
    arguments = arguments_of(kernel)
    given = as_tensors(arguments)
    got, expected = kernel(*given), kernel(*arguments)
    assert type(got) is Tensor
    np.testing.assert_array_equal(got.data, expected)
    assert got.data.dtype == expected.dtype
    for tensor, x in zip(given, arguments, strict=True):
        np.testing.assert_array_equal(getattr(tensor, "data", tensor), x)


@FORMS
def test_a_tensor_may_be_given_by_keyword(kernel):
    arguments = arguments_of(kernel)
    named = dict(zip(inspect.signature(kernel).parameters, as_tensors(arguments), strict=False))
    got = kernel(**named)
    assert type(got) is Tensor
    np.testing.assert_array_equal(got.data, kernel(*arguments))


@FORMS
def test_the_cost_of_tensors_is_that_of_their_arrays(kernel):
    arguments = arguments_of(kernel)
    assert kernel.cost(*as_tensors(arguments, Other)) == kernel.cost(*arguments)


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if takes_out(kernel)], ids=name_of)
def test_out_is_returned_itself_be_it_a_tensor_or_an_array(kernel):
    arguments = arguments_of(kernel)
    expected = kernel(*arguments)
    for inputs in (arguments, as_tensors(arguments)):
        for make in (np.empty_like, lambda like: Tensor(np.empty_like(like)), lambda like: Other(np.empty_like(like))):
            out = make(expected)
            assert kernel(*inputs, out=out) is out
            np.testing.assert_array_equal(tensors.plain(out), expected)


@FORMS
def test_arrays_and_their_subclasses_are_no_tensors(kernel):
    arguments = arguments_of(kernel)
    assert type(kernel(*arguments)) in (np.ndarray, np.float32)  # a sum is a scalar

    class Own(np.ndarray):
        pass

    own = [x.view(Own) if isinstance(x, np.ndarray) else x for x in arguments]
    assert isinstance(kernel(*own), np.ndarray)


def test_a_plain_array_beside_a_tensor_gives_a_tensor():
    x = np.ones(3, np.float32)
    for given in ((Tensor(x), x), (x, Tensor(x)), (Tensor(x), 1.0)):
        got = accel.kernels.elementwise.add(*given)
        assert type(got) is Tensor
        assert got.data.tolist() == [2, 2, 2]


def test_classes_that_derive_from_each_other_give_the_one_they_share():
    x = np.ones(3)
    add = accel.kernels.elementwise.add
    assert type(add(Parameter(x), Parameter(x))) is Parameter
    assert type(add(Parameter(x), Tensor(x))) is type(add(Tensor(x), Parameter(x))) is Tensor


def test_classes_that_have_nothing_in_common_are_refused_before_anything_is_computed():
    ran = []

    @costs(lambda a, b: Cost())
    def kernel(a, b):
        ran.append(1)
        return a

    with pytest.raises(TypeError, match=r"of one class.*got Other and Tensor\. Convert them, for example Other\(x"):
        kernel(Tensor(np.ones(2)), Other(np.ones(2)))
    assert not ran


def test_a_class_that_cannot_be_made_of_an_array_is_named():
    class Named:
        def __init__(self, data, name):
            self.data = data

    with pytest.raises(TypeError, match=r"cannot be put into a Named.*missing 1 required.*Pass x\.data") as caught:
        accel.kernels.elementwise.add(Named(np.ones(2), "x"), 1.0)
    assert isinstance(caught.value.__cause__, TypeError)


def test_what_a_kernel_refuses_of_an_array_it_refuses_of_a_tensor():
    with pytest.raises(TypeError, match=r"x1 must hold real numbers; got dtype complex128"):
        accel.kernels.elementwise.add(Tensor(np.ones(2, complex)), 1.0)
    with pytest.raises(ValueError, match=r"out must have the shape of the result, \(2,\); got \(3,\)"):
        accel.kernels.elementwise.add(Tensor(np.ones(2)), 1.0, out=Tensor(np.ones(3)))


def test_results_that_are_scalars_or_several_arrays():
    @costs(lambda x: Cost())
    def moments(x):
        return x.mean(), x * x, "text"

    mean, squares, text = moments(Tensor([1.0, 3.0]))
    assert type(mean) is type(squares) is Tensor
    assert mean.data == 2.0
    assert squares.data.tolist() == [1.0, 9.0]
    assert text == "text"


class Sparse:
    data, shape, nnz = np.ones(2), (2,), 2


class Framed:
    """As pandas and xarray do, it answers for NumPy's functions itself."""

    data, shape = np.ones(2), (2,)

    def __array_ufunc__(self, *arguments, **keywords):
        return NotImplemented


class OfAnotherShape:
    data, shape = np.ones(2), (4, 4)


class WithMethod:
    data = np.ones(2)

    def shape(self):
        return (2,)


class NotAnswering:
    """Keeps NumPy's operators off, so that its own `__radd__` is asked: still a tensor."""

    __array_ufunc__ = None
    data = np.ones(2)


@pytest.mark.parametrize(
    "x",
    [
        *(np.ones(2), np.float32(1), np.ma.ones(2), np.ones(2).data, memoryview(b"ab"), b"ab", bytearray(b"ab")),
        *(array.array("d", [1.0]), 1, 1.5, True, None, "data", [1.0], (1.0,), {"data": np.ones(2)}, np.float64),
        *(Sparse(), Framed(), OfAnotherShape(), WithMethod(), Other([1.0]), Other(memoryview(b"ab"))),
        accel.array_like((2,), "float32"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_is_no_tensor(x):
    assert not is_tensor(x)
    assert tensors.plain(x) is x


@pytest.mark.parametrize("x", [Tensor([1.0]), Parameter([1.0]), Other(np.ones(2)), NotAnswering()])
def test_what_is_a_tensor(x):
    assert is_tensor(x)


def test_a_trace_sees_what_a_kernel_does_to_tensors_made_of_traced_arrays():
    @costs(lambda x: Cost(flops=7), opaque=True)
    def compiled(x):
        return x + 1

    x = np.ones(4)
    found = accel.trace(lambda x: compiled(Other(accel.kernels.elementwise.add(Other(x), 1.0).data)).data, x)
    calls = [op for op in found.ops if op.kind != "opaque"]
    assert [(op.name, op.cost.flops) for op in calls] == [("add", 4), ("test_tensors.compiled", 7)]
    assert [op.file for op in calls] == ["elementwise.py", "test_tensors.py"]
    np.testing.assert_array_equal(found.result, x + 2)


def test_a_trace_of_shapes_goes_through_kernels():
    shape = accel.array_like((1000,), "float32")
    assert accel.trace(accel.kernels.gelu.in_place, shape).cost == accel.kernels.gelu.in_place.cost(shape)


@FORMS
def test_docstring_examples_of_every_kernel(kernel):
    """The decorator's function is not the module's own, so that `doctest.testmod` passes it over."""
    function = inspect.unwrap(kernel)
    tests = [t for t in doctest.DocTestFinder().find(function, name_of(kernel)) if t.examples]
    assert tests, "a public form has an example"
    runner = doctest.DocTestRunner()
    assert sum(runner.run(test).failed for test in tests) == 0


def test_docstring_examples_of_the_module():
    assert doctest.testmod(tensors).failed == 0


@pytest.mark.speed
def test_plain_arrays_hardly_pay_for_tensors():
    add, x = accel.kernels.elementwise.add, np.ones(1000, np.float32)
    taken = accel.measure({"kernel": add, "bare": add.__wrapped__}, x, x, seconds=0.4)
    assert taken["kernel"].best_seconds < 1.5 * taken["bare"].best_seconds
