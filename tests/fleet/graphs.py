"""Graphs made by hand, for tests whose answers are worked out on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accel.cost import Cost
from accel.fleet.graph import GraphTask, TaskGraph, TaskKind


def by_hand(
    tasks: Sequence[tuple[int, Sequence[int]]],
    result_bytes: Sequence[int] = (0,),
    *,
    data: frozenset[int] = frozenset(),
    outputs: Sequence[int] | None = None,
) -> TaskGraph:
    """Return a graph of (kind, dependencies), with the bytes of each kind's result; `data` are kinds that are there."""
    kinds = tuple(
        TaskKind(
            name=f"kind {index}",
            inputs=(),
            count=sum(kind == index for kind, _ in tasks),
            result_bytes=size,
            seen="data" if index in data else "shapes",
            reason="",
            cost=Cost(),
            traces=(),
        )
        for index, size in enumerate(result_bytes)
    )
    listed = tuple(GraphTask(str(index), kind, tuple(needed)) for index, (kind, needed) in enumerate(tasks))
    needed = {source for task in listed for source in task.dependencies}
    last = [index for index in range(len(listed)) if index not in needed] if outputs is None else outputs
    return TaskGraph("by hand", kinds, listed, tuple(last), 0, 0.0)


def costing(seconds: Mapping[int, float] | float):  # type: ignore[no-untyped-def]
    """Return the time of a task of each kind, on whatever worker."""
    return lambda kind, _worker: seconds[kind] if isinstance(seconds, Mapping) else seconds
