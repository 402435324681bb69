"""Graph: the tasks that Dask makes of an array expression, with what each computes, holds and needs.

Nothing is computed: one task of each kind is traced on arrays without data. Tasks are of one kind if they apply the
same functions to inputs of the same shapes and dtypes, so a graph of ten thousand tasks has a handful of traces.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from accel.cost import Cost
from accel.fleet.cluster import distributed
from accel.fleet.structure import (
    ArraySpec,
    Opaque,
    arrays_in,
    bytes_of,
    described,
    evaluated,
    filled,
    in_order,
    is_known,
    signature,
)
from accel.prediction import with_opaque_timed
from accel.records import Record
from accel.tables import Column, Table, counts_column
from accel.tracing import Trace, trace
from accel.units import format_bytes

__all__ = ["GraphTask", "TaskGraph", "TaskKind", "stored", "task_graph"]

RUN_BYTES = 2**28
"""Tasks whose inputs are larger than this are not run for being seen."""
REPEATED_SECONDS = 0.05


@dataclass(frozen=True)
class TaskKind(Record):
    """Tasks that do the same work: the same functions on inputs of the same shapes and dtypes."""

    name: str
    """What Dask calls them, without the hash: ``"standard_normal-mul"``."""
    inputs: tuple[str, ...]
    """The arrays that each is given: ``"float32[1000, 1000]"``."""
    count: int
    result_bytes: int
    """Bytes of the result of one of them; 0 where it is not known."""
    seen: str
    """``"shapes"`` (traced without data), ``"run"`` (one was run, because it makes its data or needs values),
    ``"data"`` (there before the graph runs) or ``"opaque"``: nothing is known of its work."""
    reason: str
    """Why it was not traced without data; empty where it was."""
    cost: Cost
    """Counts for one of them."""
    traces: tuple[Trace, ...]
    """The calls of one of them: first of the parts that make data, then of the rest."""
    steps: int = 1
    """Operations that Dask has fused into one of them."""


@dataclass(frozen=True)
class GraphTask(Record):
    """One task of a graph."""

    key: str
    kind: int
    """Index into `TaskGraph.kinds`."""
    dependencies: tuple[int, ...]
    """Indices of the tasks whose results it needs."""


@dataclass(frozen=True)
class TaskGraph(Record):
    """The tasks of an array expression, in the order in which Dask prefers to run them."""

    name: str
    kinds: tuple[TaskKind, ...]
    tasks: tuple[GraphTask, ...]
    outputs: tuple[int, ...]
    """Tasks whose results are the result of the graph, and stay in memory."""
    embedded_bytes: int
    """Bytes of arrays that are part of the graph itself, and travel from client to workers with it."""
    preparing_seconds: float
    """What it took here to optimize and order the graph, which every run of it pays as well."""

    @cached_property
    def cost(self) -> Cost:
        """Counts of all tasks that can be seen."""
        return sum((kind.cost * kind.count for kind in self.kinds), Cost())

    @cached_property
    def result_bytes(self) -> int:
        """Bytes of all results of the graph."""
        return sum(self.bytes_of(index) for index in self.outputs)

    @property
    def opaque_tasks(self) -> int:
        """Tasks of whose work nothing is known."""
        return sum(kind.count for kind in self.kinds if kind.seen == "opaque")

    def bytes_of(self, task: int) -> int:
        """Return the bytes of the result of a task."""
        return self.kinds[self.tasks[task].kind].result_bytes

    def bytes_moved(self, places: Sequence[Any]) -> int:
        """Return the bytes that move between workers if task i runs at `places[i]`.

        A result moves to each worker that needs it, once: it is kept there until the last task there has used it.

        Raises
        ------
        ValueError
            If there is not one place for each task.

        Examples
        --------
        >>> import dask.array as da
        >>> from accel.fleet import task_graph
        >>> graph = task_graph(da.ones((4, 4), chunks=(4, 2), dtype="float64").map_blocks(lambda x: x * 2).sum())
        >>> len(graph.tasks), graph.bytes_moved([0] * len(graph.tasks))
        (3, 0)
        """
        if len(places) != len(self.tasks):
            raise ValueError(f"there is a place for each of the {len(self.tasks)} tasks; got {len(places)} places.")
        moves = {
            (source, place)
            for task, place in zip(self.tasks, places, strict=True)
            for source in task.dependencies
            if places[source] != place
        }
        return sum(self.bytes_of(source) for source, _ in moves)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """Return the kinds of tasks as a table, with the counts of all tasks of each."""
        kinds = self.kinds
        unseen = f"{self.opaque_tasks:,} of the tasks cannot be seen" if self.opaque_tasks else ""
        embedded = f"{format_bytes(self.embedded_bytes)} of data in the graph itself" if self.embedded_bytes else ""
        return Table(
            f"{self.name}: {len(self.tasks):,} tasks of {len(kinds)} kinds",
            (
                Column("task", tuple(kind.name for kind in kinds), is_text=True),
                Column("tasks", tuple(f"{kind.count:,}" for kind in kinds)),
                Column("result of one", tuple(format_bytes(kind.result_bytes) for kind in kinds)),
                counts_column("FLOPs", [kind.cost.flops * kind.count for kind in kinds]),
                counts_column("special", [kind.cost.special * kind.count for kind in kinds]),
                counts_column("bytes", [kind.cost.bytes_algorithmic * kind.count for kind in kinds], "B"),
                Column("seen", tuple(kind.seen for kind in kinds), is_text=True),
            ),
            "; ".join(filter(None, [embedded, unseen])),
        )


def task_graph(array: Any, *, inputs: Iterable[Any] = (), run: bool = False) -> TaskGraph:
    """Return the tasks that Dask would run for an array, each with its counts, without computing them.

    One task of each kind is called on arrays without data. Where that is impossible, because it makes its data (random
    numbers) or needs values, and its functions are Dask's or NumPy's own, one is run on ones instead. What remains is
    opaque.

    Parameters
    ----------
    array : dask.array.Array
        The expression. It is optimized as `dask.compute` would.
    inputs : iterable of dask.array.Array
        Arrays whose chunks are there already (persisted, or read in some way that is not of interest): their tasks are
        data, and cost nothing.
    run : bool
        Whether tasks of any other function may be run on ones too, where they cannot be traced without data.

    Raises
    ------
    ModuleNotFoundError
        If Dask is not installed.
    TypeError
        If `array` is not a Dask array.
    ValueError
        If the array has chunks of unknown size.
    """
    distributed()  # or say how to install it
    import dask
    import dask.array as da
    from dask.core import flatten
    from dask.order import order
    from dask.utils import key_split

    inputs = tuple(inputs)
    for each in (array, *inputs):
        if not isinstance(each, da.Array):
            raise TypeError(f"task_graph() takes Dask arrays, as dask.array makes them; got {type(each).__name__}.")
        if any(math.isnan(length) for axis in each.chunks for length in axis):
            raise ValueError("the chunks of the array have unknown sizes. Call its compute_chunk_sizes() before.")
    started = time.perf_counter()
    (optimized,) = dask.optimize(array)
    known = {key: spec for each in inputs for key, spec in _chunk_specs(each)}
    nodes = _needed(dict(optimized.__dask_graph__()), known, list(flatten(optimized.__dask_keys__())))
    priorities = order(nodes)
    keys = sorted(nodes, key=priorities.__getitem__)
    prepared = time.perf_counter()
    walk = _Walk(known, dict(_chunk_specs(optimized)), run, key_split)
    tasks = walk.tasks(keys, nodes)
    position = {key: index for index, key in enumerate(keys)}
    return TaskGraph(
        name=f"{array.dtype}{list(array.shape)} in chunks of {list(array.chunksize)}",
        kinds=tuple(walk.kinds),
        tasks=tasks,
        outputs=tuple(position[key] for key in flatten(optimized.__dask_keys__())),
        embedded_bytes=sum(value.nbytes for key in keys if key not in known for value in _embedded(nodes[key])),
        preparing_seconds=prepared - started,
    )


def stored(shape: Sequence[int], chunks: Any, dtype: Any = "float64") -> Any:
    """Return a Dask array that stands for one whose chunks the workers hold: for predictions, since it has no data.

    Parameters
    ----------
    chunks
        As `dask.array` takes them.

    Raises
    ------
    ModuleNotFoundError
        If Dask is not installed.

    Examples
    --------
    >>> from accel.fleet import stored, task_graph
    >>> x = stored((4000, 4000), 1000, "float32")
    >>> graph = task_graph(x @ x, inputs=[x])
    >>> graph.cost.flops == 4 * 4 * (4 * 2 * 1000**3 + 3 * 1000**2), graph.result_bytes
    (True, 64000000)
    """
    distributed()  # or say how to install it
    import dask.array as da
    from dask._task_spec import TaskRef

    lengths = da.core.normalize_chunks(chunks, shape=tuple(shape), dtype=np.dtype(dtype))
    name = f"stored-{uuid.uuid4().hex}"
    keys = ((name, *place) for place in np.ndindex(*map(len, lengths)))
    return da.Array(
        {key: TaskRef(key) for key in keys}, name, lengths, dtype=dtype
    )  # as of futures, whose data is there


def _chunk_specs(array: Any) -> Iterator[tuple[Any, ArraySpec]]:
    """Go over the chunks of an array: key and shape, in C order."""
    size = array.dtype.itemsize
    for place in np.ndindex(*(len(axis) for axis in array.chunks)):
        shape = tuple(int(axis[index]) for axis, index in zip(array.chunks, place, strict=True))
        strides = tuple(size * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        yield (array.name, *place), ArraySpec(shape, array.dtype.name, strides)


def _needed(nodes: Mapping[Any, Any], known: Mapping[Any, Any], wanted: list[Any]) -> dict[Any, Any]:
    """Return the nodes that the wanted ones need, those of known data without what they would be made of."""
    from dask._task_spec import DataNode, GraphNode

    found: dict[Any, Any] = {}
    pending = list(wanted)
    while pending:
        key = pending.pop()
        if key not in found:
            node = nodes.get(key)  # a persisted chunk is a future, or is in no graph at all
            found[key] = node if isinstance(node, GraphNode) and key not in known else DataNode(key, None)
            pending += found[key].dependencies
    return found


def _embedded(node: Any) -> Iterator[np.ndarray]:
    """Go over the arrays that are part of a task."""
    from dask._task_spec import DataNode, Task

    if isinstance(node, DataNode):
        node = node.value
    if isinstance(node, np.ndarray) and node.dtype.kind in "biufc":
        yield node
    elif isinstance(node, Task):
        for part in (*node.args, *node.kwargs.values()):
            yield from _embedded(part)
    elif type(node) in (list, tuple):
        for part in node:
            yield from _embedded(part)
    elif type(node) is dict:
        yield from _embedded(list(node.values()))


class _Walk:
    """Goes through the tasks of a graph, dependencies first, and finds their kinds."""

    def __init__(self, known: Mapping[Any, ArraySpec], outputs: Mapping[Any, ArraySpec], run: bool, name: Any) -> None:
        self.kinds: list[TaskKind] = []
        self._known, self._outputs, self._run, self._name = known, outputs, run, name
        self._forms: dict[Any, Any] = {}
        self._found: dict[Any, tuple[int, Any]] = {}

    def tasks(self, keys: Sequence[Any], nodes: Mapping[Any, Any]) -> tuple[GraphTask, ...]:
        numbers: dict[Any, int] = {}
        counts: list[int] = []
        tasks = []
        for key in keys:
            node = nodes[key]
            kind, self._forms[key] = self._kind(key, node)
            counts += [0] * (len(self.kinds) - len(counts))
            counts[kind] += 1
            numbers[key] = len(numbers)
            tasks.append(GraphTask(str(key), kind, tuple(sorted(numbers[each] for each in node.dependencies))))
        self.kinds = [replace(kind, count=count) for kind, count in zip(self.kinds, counts, strict=True)]
        return tuple(tasks)

    def _kind(self, key: Any, node: Any) -> tuple[int, Any]:
        name = self._name(key)
        if key in self._known:
            signed: Any = ("data", name, self._known[key])
        else:
            signed = name, signature(node, self._forms), self._outputs.get(key)
        if signed not in self._found:
            kind, form = self._seen(key, node, name)
            self._found[signed] = len(self.kinds), form
            self.kinds.append(replace(kind, steps=max(1, sum(1 for _ in _operations(node)))))
        return self._found[signed]

    def _seen(self, key: Any, node: Any, name: str) -> tuple[TaskKind, Any]:
        """Find out what one task does."""
        if key in self._known:
            return _kind_of(name, [], self._known[key], "data"), self._known[key]
        needed = sorted(node.dependencies, key=str)
        if any(isinstance(self._forms[each], Opaque) for each in needed):
            return self._opaque(key, name, [], "it needs the result of a task that cannot be seen")
        try:
            made = {id(part): _ran(self._named(part, name), []) for part in self._sources(node)}
        except Exception as error:  # a function that makes data may raise anything
            return self._opaque(key, name, [], _reason(error))
        forms = {id(array): described(array) for array in _embedded(node)} | {i: form for i, (_, form) in made.items()}
        forms = {part: form for part, form in forms.items() if not isinstance(form, Opaque)}
        specs = [spec for each in needed for spec in arrays_in(self._forms[each])]
        specs += [spec for form in forms.values() for spec in arrays_in(form)]
        function = _callable(name, node, {each: self._forms[each] for each in needed}, forms)
        sources = [found for found, _ in made.values()]
        reason = ""
        if specs:
            try:
                found = trace(function, *(spec.without_data() for spec in specs))
                form = described(found.result)
                return _kind_of(name, specs, form, "run" if made else "shapes", "", *sources, found), form
            except Exception as error:  # anybody's function, on arrays that it does not expect: it may raise anything
                reason = _reason(error)
        if sum(spec.nbytes for spec in specs) > RUN_BYTES:
            return self._opaque(key, name, specs, f"{reason}; its inputs are too large to run it")
        if not self._run and not is_known(node):
            return self._opaque(key, name, specs, reason or "it makes its data, by a function that is not NumPy's")
        try:
            found, form = _ran(function, [spec.with_ones() for spec in specs])
        except Exception as error:
            return self._opaque(key, name, specs, _reason(error))
        return _kind_of(name, specs, form, "run", reason, *sources, found), form

    def _sources(self, node: Any) -> Iterator[Any]:
        """Go over the parts of a fused task that make data from nothing, as far as they may be run."""
        from dask._task_spec import NestedContainer

        for part in _operations(node):
            makes = (
                not part.dependencies
                and not isinstance(part, NestedContainer)
                and not any(True for _ in _embedded(part))
            )
            if makes and (self._run or is_known(part)):
                yield part

    @staticmethod
    def _named(part: Any, name: str) -> Any:
        return _callable(name, part, {}, {})

    def _opaque(self, key: Any, name: str, specs: Sequence[ArraySpec], reason: str) -> tuple[TaskKind, Any]:
        """Return a kind of which nothing is known, but for the shape of a chunk of the graph's result."""
        form = self._outputs.get(key) or Opaque()
        return _kind_of(name, specs, form, "opaque", reason), form


def _operations(node: Any) -> Iterator[Any]:
    """Go over the operations that are fused into a task, dependencies first."""
    from dask._task_spec import Task, _execute_subgraph

    if not isinstance(node, Task):
        return
    if node.func is not _execute_subgraph:
        yield node
        return
    for key in in_order(node.args[0], node.args[1], node.args[2]):
        yield from _operations(node.args[0][key])


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}" if str(error) else type(error).__name__


def _callable(name: str, node: Any, forms: Mapping[Any, Any], parts: Mapping[int, Any]) -> Any:
    """Return a task as a function of the arrays that it is given, and of those that are made or kept within it."""

    def task(*arrays: Any) -> Any:
        given = iter(arrays)
        values = {key: filled(form, lambda _: next(given)) for key, form in forms.items()}
        known = {part: filled(form, lambda _: next(given)) for part, form in parts.items()}
        return evaluated(node, values, known)

    task.__name__ = task.__qualname__ = name
    return task


def _ran(function: Any, arrays: Sequence[np.ndarray]) -> tuple[Trace, Any]:
    """Trace a task on ones; what it does out of sight is timed, the more often the shorter it is."""
    found = trace(function, *arrays)
    form = described(found.result)
    if found.seconds < REPEATED_SECONDS:
        found = with_opaque_timed(found, function, tuple(arrays), {})
    elif found.seconds < 10 * REPEATED_SECONDS:
        again = [replace(trace(function, *arrays)) for _ in range(3)]
        found = min([found, *again], key=lambda each: each.seconds)
    return replace(found), form  # without the result, which may be large


def _kind_of(name: str, specs: Sequence[ArraySpec], form: Any, seen: str, reason: str = "", *traces: Trace) -> TaskKind:
    return TaskKind(
        name=name,
        inputs=tuple(map(str, specs)),
        count=0,
        result_bytes=0 if isinstance(form, Opaque) else bytes_of(form),
        seen=seen,
        reason=reason,
        cost=sum((found.cost for found in traces), Cost()),
        traces=tuple(replace(found) for found in traces),  # without their results
    )
