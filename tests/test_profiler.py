"""Profiler: any object with forward or __call__, counted exactly, by tracing and never by class name."""

import numpy as np
import pytest
from machines import CALIBRATED

import accel
from accel import models
from accel.profiler import ForwardProfile, Profiler

BATCH, WIDTH, HIDDEN = 6, 8, 20


class Tensor:
    """As courses write it: a constructor that copies, operators that wrap."""

    def __init__(self, data):
        self.data = np.array(data, dtype=np.float32)
        self.grad = np.zeros_like(self.data)

    def __matmul__(self, other):
        return Tensor(self.data @ other.data)

    def __add__(self, other):
        return Tensor(self.data + other.data)


class TensorLinear:
    def __init__(self, inputs, outputs):
        self.weight, self.bias = Tensor(np.ones((inputs, outputs))), Tensor(np.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias

    def __call__(self, x):
        return self.forward(x)


class ArrayLinear:
    """Arrays only, and `forward` only."""

    def __init__(self, inputs, outputs):
        self.weight, self.bias = np.ones((inputs, outputs), np.float32), np.zeros(outputs, np.float32)

    def forward(self, x):
        return x @ self.weight + self.bias


class Embedding:
    def __init__(self, count, width):
        self.table = np.ones((count, width), np.float32)

    def __call__(self, ids):
        return Tensor(self.table[ids])


class Square:
    def __call__(self, x):
        return Tensor(x.data * x.data)


class Model:
    """Named like a layer whose FLOPs a table of names would get wrong."""

    def __init__(self):
        self.embedding = Embedding(50, WIDTH)
        self.layers = [TensorLinear(WIDTH, HIDDEN), Square(), TensorLinear(HIDDEN, WIDTH)]

    def __call__(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return x


IDS = np.arange(BATCH)
LINEAR_FLOPS = BATCH * (2 * WIDTH * HIDDEN + HIDDEN)
MODEL_FLOPS = LINEAR_FLOPS + BATCH * HIDDEN + BATCH * (2 * HIDDEN * WIDTH + WIDTH)
MODEL_PARAMETERS = 50 * WIDTH + WIDTH * HIDDEN + HIDDEN + HIDDEN * WIDTH + WIDTH


@pytest.fixture
def profiler():
    return Profiler(seconds=0.02, machine=CALIBRATED)


@pytest.mark.parametrize("linear", [TensorLinear, ArrayLinear])
def test_parameters_are_counted_without_gradients(profiler, linear):
    assert profiler.count_parameters(linear(WIDTH, HIDDEN)) == WIDTH * HIDDEN + HIDDEN


def test_parameters_of_nested_layers_are_found(profiler):
    assert profiler.count_parameters(Model()) == MODEL_PARAMETERS


@pytest.mark.parametrize("tie", [lambda array: array, np.transpose, lambda array: array.reshape(-1)])
def test_shared_memory_is_counted_once(profiler, tie):
    model = ArrayLinear(WIDTH, WIDTH)
    model.tied = tie(model.weight)
    assert profiler.count_parameters(model) == WIDTH * WIDTH + WIDTH


@pytest.mark.parametrize("collect", [tuple, list, lambda tensors: dict(enumerate(tensors)), iter])
def test_the_models_own_list_of_parameters_decides(profiler, collect):
    model = TensorLinear(WIDTH, HIDDEN)
    model.running_mean = np.zeros(HIDDEN)
    model.parameters = lambda: collect([model.weight, model.bias.data])
    assert profiler.count_parameters(model) == WIDTH * HIDDEN + HIDDEN


def test_parameters_that_are_no_arrays_are_refused(profiler):
    model = TensorLinear(WIDTH, HIDDEN)
    model.parameters = lambda: ["weight"]
    with pytest.raises(TypeError, match=r"parameters\(\) of TensorLinear .* got str"):
        profiler.count_parameters(model)


@pytest.mark.parametrize("batch", [1, 6, 32])
def test_flops_include_the_batch(profiler, batch):
    x = np.ones((batch, WIDTH), np.float32)
    expected = batch * (2 * WIDTH * HIDDEN + HIDDEN)
    assert profiler.count_flops(ArrayLinear(WIDTH, HIDDEN), x) == expected
    assert profiler.count_flops(TensorLinear(WIDTH, HIDDEN), Tensor(x)) == expected


def test_flops_go_by_what_is_done_and_not_by_the_class_name(profiler):
    class Linear:
        def forward(self, x):
            return x + x

    assert profiler.count_flops(Linear(), np.ones(10)) == 10


def test_a_model_that_starts_from_integers_is_seen_whole(profiler):
    assert profiler.count_flops(Model(), IDS) == MODEL_FLOPS


def test_shapes_are_enough_to_count(profiler):
    shape = accel.array_like((BATCH, WIDTH), "float32")
    assert profiler.count_flops(ArrayLinear(WIDTH, HIDDEN), shape) == LINEAR_FLOPS


def test_functions_are_models_too(profiler):
    assert profiler.count_flops(lambda x: x * 2 + 1, np.ones(10)) == 20


def test_counting_leaves_the_model_as_it_was(profiler):
    model = Model()
    before = [(place.name, place.array) for place in models.named_arrays(model)]
    profiler.count(model, IDS)
    profiler.profile_forward_pass(model, IDS)
    after = [(place.name, place.array) for place in models.named_arrays(model)]
    assert [name for name, _ in before] == [name for name, _ in after]
    assert all(old is new and type(new) is np.ndarray for (_, old), (_, new) in zip(before, after, strict=True))
    assert [type(layer) for layer in model.layers] == [TensorLinear, Square, TensorLinear]


def test_a_model_that_raises_is_left_as_it_was_and_its_exception_comes_through(profiler):
    model = Model()
    for ask in (profiler.count, profiler.profile_forward_pass):
        with pytest.raises(IndexError):
            ask(model, np.array([1000]))
    assert type(model.embedding) is Embedding
    assert type(model.embedding.table) is np.ndarray


@pytest.mark.parametrize("ask", ["count", "measure_latency", "measure_memory", "profile_layer"])
def test_what_cannot_be_run_is_refused(profiler, ask):
    with pytest.raises(TypeError, match=r"forward\(\) or __call__\(\); got int"):
        getattr(profiler, ask)(3, np.ones(3))


def test_memory_counts_parameters_input_and_the_peak_of_a_pass(profiler):
    model, x = ArrayLinear(WIDTH, 1000), np.ones((BATCH, WIDTH), np.float32)
    memory = profiler.measure_memory(model, x)
    assert (memory.parameter_bytes, memory.input_bytes) == (4 * (WIDTH * 1000 + 1000), x.nbytes)
    product = BATCH * 1000 * 4  # and the sum with the bias as large again, and what NumPy takes for itself
    assert 2 * product <= memory.peak_bytes <= 4 * product
    assert memory.total_bytes == memory.parameter_bytes + memory.input_bytes + memory.peak_bytes


def test_latency_names_its_units(profiler):
    layer = profiler.profile_layer(ArrayLinear(WIDTH, HIDDEN), np.ones((BATCH, WIDTH), np.float32))
    assert layer.milliseconds == layer.seconds * 1e3 == layer.measured.best_seconds * 1e3
    assert layer.flops_per_second * layer.seconds == pytest.approx(LINEAR_FLOPS)
    assert profiler.measure_latency(np.add, np.ones(3), np.ones(3)).best_seconds > 0


def test_a_forward_pass_has_a_row_for_each_layer_and_adds_up(profiler):
    found = profiler.profile_forward_pass(Model(), IDS)
    assert [layer.name for layer in found.layers] == ["embedding", "layers.0", "layers.1", "layers.2"]
    assert [layer.cost.flops for layer in found.layers] == [
        0, LINEAR_FLOPS, BATCH * HIDDEN, BATCH * (2 * HIDDEN * WIDTH + WIDTH),
    ]  # fmt: skip
    assert sum(layer.cost.flops for layer in found.layers) == found.whole.cost.flops == MODEL_FLOPS
    assert sum(layer.parameters for layer in found.layers) == found.whole.parameters == MODEL_PARAMETERS
    assert found.between_seconds + sum(layer.seconds for layer in found.layers) == pytest.approx(found.whole.seconds)
    assert ForwardProfile.from_json(found.to_json()) == found
    assert "between layers" in repr(found)
    assert "<table" in found._repr_html_()


def test_a_layer_that_is_called_twice_has_one_row_for_both_calls(profiler):
    class Twice:
        def __init__(self):
            self.layer = ArrayLinear(WIDTH, WIDTH)

        def forward(self, x):
            return self.layer.forward(self.layer.forward(x))

    found = profiler.profile_forward_pass(Twice(), np.ones((BATCH, WIDTH), np.float32))
    (layer,) = found.layers
    assert (layer.calls, layer.parameters) == (2, WIDTH * WIDTH + WIDTH)
    assert layer.cost.flops == found.whole.cost.flops


def test_layers_may_take_keywords_and_be_skipped(profiler):
    class Scale:
        def __call__(self, x, *, by):
            return x * by

    class Model:
        def __init__(self):
            self.used, self.unused = Scale(), Scale()

        def __call__(self, x):
            return self.used(x, by=np.float64(2))

    found = profiler.profile_forward_pass(Model(), np.ones(10))
    assert [(layer.name, layer.cost.flops) for layer in found.layers] == [("used", 10)]


def test_a_model_without_layers_is_one_row(profiler):
    found = profiler.profile_forward_pass(ArrayLinear(WIDTH, HIDDEN), np.ones((BATCH, WIDTH), np.float32))
    assert found.layers == ()
    assert "between" not in repr(found)


def test_a_layer_of_a_class_that_cannot_be_replaced_counts_as_the_models_own(profiler):
    class Slotted:
        __slots__ = ("weight",)

        def __init__(self):
            self.weight = 2.0

        def __call__(self, x):
            return x * self.weight

    class Model:
        def __init__(self):
            self.layers = [Slotted(), np.tanh]

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    found = profiler.profile_forward_pass(Model(), np.ones(10))
    assert found.whole.cost.flops == 10
    assert found.whole.cost.special == 10


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_time_to_measure_is_positive(seconds):
    with pytest.raises(ValueError, match="seconds is a positive time"):
        Profiler(seconds=seconds)


def test_cycles_between_objects_end():
    class Node:
        def __init__(self):
            self.parent, self.weight = None, np.ones(3)

        def __call__(self, x):
            return x * self.weight

    parent, child = Node(), Node()
    parent.child, child.parent = child, parent
    assert len(models.parameters(parent)) == 2
