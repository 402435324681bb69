"""What is read from a Dask graph, against counts by hand."""

from __future__ import annotations

import time

import numpy as np
import pytest

from accel.fleet import stored, task_graph
from accel.kernels import gelu

da = pytest.importorskip("dask.array")


def test_blocked_product_is_counted_by_hand() -> None:
    x = stored((600, 400), (200, 100), "float32")
    y = stored((400, 300), (100, 300), "float32")
    graph = task_graph(x @ y, inputs=[x, y])
    counts = {kind.seen: kind.count for kind in graph.kinds if kind.seen == "data"}
    products = [kind for kind in graph.kinds if kind.name == "chunk_sum"]
    assert counts
    assert sum(kind.count for kind in products) == 3 * 4 * 1
    assert sum(kind.cost.flops * kind.count for kind in products) == 2 * 600 * 400 * 300
    sums = next(kind for kind in graph.kinds if kind.name == "chunk_sum-aggregate")
    assert (sums.count, sums.result_bytes, sums.cost.flops) == (3, 200 * 300 * 4, 3 * 200 * 300)
    assert graph.result_bytes == 600 * 300 * 4
    assert graph.opaque_tasks == 0


def test_elementwise_expression_has_a_task_a_chunk_and_moves_nothing() -> None:
    x = stored((1000, 1000), 250)
    graph = task_graph(x * 2 + 1, inputs=[x])
    (kind,) = [kind for kind in graph.kinds if kind.seen != "data"]
    assert (kind.count, kind.cost.flops, kind.result_bytes) == (16, 2 * 250 * 250, 250 * 250 * 8)
    places = [int(task.key.split("(")[1].split(",")[1]) for task in graph.tasks]
    assert graph.bytes_moved(places) == 0


def test_bytes_moved_of_a_transposed_sum_by_hand() -> None:
    """Two by two chunks, those of each row with one worker: each off-diagonal chunk is needed by the other."""
    x = stored((4, 4), 2, "float64")
    graph = task_graph(x + x.T, inputs=[x])
    places = [int(task.key.split(", ")[1]) for task in graph.tasks]
    assert graph.bytes_moved(places) == 2 * (2 * 2 * 8)


def test_kinds_tell_shapes_apart_and_nothing_else() -> None:
    x = stored((1000, 700), (300, 700))
    assert sorted(kind.count for kind in task_graph(x + 1, inputs=[x]).kinds if kind.seen == "shapes") == [1, 3]
    made = da.random.default_rng(0).standard_normal((1000, 1000), chunks=100)
    assert [kind.count for kind in task_graph(made).kinds] == [100], "seeds make no kind"


def test_data_that_is_made_is_run_and_the_rest_traced_without_data() -> None:
    x = da.random.default_rng(0).standard_normal((400, 400), chunks=200, dtype="float32")
    graph = task_graph(x.map_blocks(gelu.expression))
    made = graph.kinds[0]
    assert (made.seen, made.count, len(made.traces)) == ("run", 4, 2)
    assert made.traces[1].shapes_only
    assert made.cost.special == 2 * 200 * 200, "tanh and power, of one chunk"


def test_function_that_needs_values_is_opaque_and_never_run() -> None:
    ran = []

    def peek(block):  # type: ignore[no-untyped-def]
        value = float(block[0, 0])
        ran.append(value)
        return block * value

    x = stored((400, 400), 200)
    graph = task_graph(x.map_blocks(peek, dtype=x.dtype, meta=np.empty((0, 0))), inputs=[x])
    (kind,) = [kind for kind in graph.kinds if kind.seen != "data"]
    assert ran == []
    assert (kind.seen, kind.count, graph.opaque_tasks) == ("opaque", 4, 4)
    assert "float()" in kind.reason
    assert kind.result_bytes == 200 * 200 * 8, "the chunks of a result are known all the same"
    allowed = task_graph(x.map_blocks(peek, dtype=x.dtype, meta=np.empty((0, 0))), inputs=[x], run=True)
    assert ran
    assert allowed.opaque_tasks == 0


def test_arrays_within_the_graph_are_counted() -> None:
    array = np.ones((400, 400))
    graph = task_graph(da.from_array(array, chunks=200) + 1)
    assert graph.embedded_bytes == array.nbytes


def test_broadcast_chunks_are_as_small_as_dask_holds_them() -> None:
    assert [kind.result_bytes for kind in task_graph(da.ones((1000, 1000), chunks=500)).kinds] == [8]


def test_ten_thousand_tasks_are_traced_once() -> None:
    x = stored((1000, 1000), 10)
    expression = x + x.T
    started = time.perf_counter()
    graph = task_graph(expression, inputs=[x])
    took = time.perf_counter() - started
    assert len(graph.tasks) == 20_000
    assert sum(len(kind.traces) for kind in graph.kinds) == 2
    assert took < 4 * graph.preparing_seconds, "as a share of what Dask itself takes for this graph"


def test_values_agree_with_dask() -> None:
    """The results whose sizes were predicted have these sizes when they are computed."""
    x = da.random.default_rng(0).standard_normal((300, 200), chunks=(100, 200), dtype="float32")
    for expression in (x.T @ x, x.sum(axis=0), x.mean(), (x - x.max(axis=1, keepdims=True)).std(axis=0)):
        assert task_graph(expression).result_bytes == np.asarray(expression.compute(scheduler="synchronous")).nbytes


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="takes Dask arrays"):
        task_graph(np.ones(3))
    x = stored((4,), 2)
    with pytest.raises(ValueError, match="unknown sizes"):
        task_graph(da.ones(4, chunks=2)[da.ones(4, chunks=2) > 0])
    with pytest.raises(ValueError, match="a place for each"):
        task_graph(x + 1, inputs=[x]).bytes_moved([0])


def test_graph_survives_saving() -> None:
    x = stored((400, 400), 200)
    graph = task_graph(x.sum(), inputs=[x])
    assert type(graph).from_json(graph.to_json()) == graph
    assert "stored" in repr(graph)
