"""Profiler: the parameters, FLOPs, latency and memory of model objects, as a whole and layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel import allocator, models
from accel.cost import Cost
from accel.machine import Machine
from accel.measurement import Measurement, format_seconds, measure_calls, measure_memory, positive_count
from accel.measurement import threads as limited
from accel.prediction import predict_trace, timed_trace
from accel.records import Record
from accel.tracing import array_like, trace
from accel.tracing.operations import Trace
from accel.tracing.shapes import ShapeArray
from accel.units import format_bytes, format_decimal, format_threads

if TYPE_CHECKING:
    from accel.tables import Table

__all__ = ["ForwardProfile", "LayerProfile", "ModelMemory", "Profiler"]


@dataclass(frozen=True)
class ModelMemory(Record):
    """Where the memory of one forward pass is."""

    parameter_bytes: int
    input_bytes: int
    peak_bytes: int
    """Most that one pass allocates at a time beyond parameters and input, its result included."""
    method: str
    """What measured the peak."""

    @property
    def total_bytes(self) -> int:
        """All of it at the peak."""
        return self.parameter_bytes + self.input_bytes + self.peak_bytes

    def __repr__(self) -> str:
        return (
            f"ModelMemory(parameters {format_bytes(self.parameter_bytes)}, input {format_bytes(self.input_bytes)}, "
            f"peak beyond them {format_bytes(self.peak_bytes)} by {self.method})"
        )


@dataclass(frozen=True)
class LayerProfile(Record):
    """One layer, or a whole model: counted, predicted and measured. What `Profiler.profile_layer` returns."""

    name: str
    kind: str
    """Name of its class; it decides nothing."""
    calls: int
    """How often one forward pass calls it."""
    parameters: int
    parameter_bytes: int
    cost: Cost
    """Of all its calls, traced."""
    predicted_seconds: float
    bound_by: str
    measured: Measurement

    @property
    def seconds(self) -> float:
        """The best sample of all its calls together."""
        return self.measured.best_seconds

    @property
    def milliseconds(self) -> float:
        """The same in milliseconds."""
        return self.seconds * 1e3

    @property
    def flops_per_second(self) -> float:
        """FLOPs over measured time."""
        return self.cost.flops / self.seconds

    @property
    def error_fraction(self) -> float:
        """Signed error of the prediction, as a share of the measured time."""
        return self.predicted_seconds / self.seconds - 1

    def __repr__(self) -> str:
        return (
            f"LayerProfile({self.name}: {self.parameters:,} parameters, {format_decimal(self.cost.flops, 'FLOP')}, "
            f"{format_seconds(self.seconds)}, predicted {format_seconds(self.predicted_seconds)}, "
            f"bound by {self.bound_by})"
        )


@dataclass(frozen=True, repr=False)
class ForwardProfile(Record):
    """A forward pass, layer by layer. What `Profiler.profile_forward_pass` returns; shows itself as a table."""

    machine: str
    threads: int
    whole: LayerProfile
    layers: tuple[LayerProfile, ...]
    memory: ModelMemory

    @property
    def between_seconds(self) -> float:
        """The model's own work around its layers: its time less theirs. Below zero where noise is larger than it."""
        return self.whole.seconds - sum(layer.seconds for layer in self.layers)

    def share(self, layer: LayerProfile) -> float:
        """Return the share of the whole time that is spent in a layer."""
        return layer.seconds / self.whole.seconds

    def table(self) -> Table:
        """Return the profile as a table: a row for each layer, for what lies between them, and for the whole."""
        from accel.tables import Column, Table, counts_column, numbers_column
        from accel.units import TIME, unit_for

        rows = (*self.layers, self.whole)
        unit, size = unit_for([s for row in rows for s in (row.seconds, row.predicted_seconds)], TIME)
        between = self.whole.predicted_seconds - sum(layer.predicted_seconds for layer in self.layers)
        own = self.between_seconds

        def with_between(values: list[float], rest: float) -> list[float]:
            return [*values[:-1], rest if rest > 0 else math.nan, values[-1]] if self.layers else values

        def counted(name: str) -> list[float]:
            values = [getattr(row.cost, name) for row in rows]
            return with_between(values, values[-1] - sum(values[:-1]))

        shares = with_between([self.share(row) for row in rows], own / self.whole.seconds)
        names = [f"{row.name} ({row.kind})" for row in self.layers]
        bounds = [row.bound_by for row in rows]
        return Table(
            f"{self.whole.name} on {self.machine}, {format_threads(self.threads)}",
            (
                Column("layer", (*names, *["between layers"] * bool(self.layers), "whole"), is_text=True),
                counts_column("parameters", with_between([row.parameters for row in rows], math.nan)),
                counts_column("FLOPs", counted("flops")),
                counts_column("special", counted("special")),
                counts_column("bytes", counted("bytes_algorithmic"), "B"),
                numbers_column(f"predicted ({unit})", with_between([r.predicted_seconds for r in rows], between), size),
                numbers_column(f"measured ({unit})", with_between([r.seconds for r in rows], own), size),
                Column("share", tuple(f"{share:.0%}" if share == share else "–" for share in shares)),
                Column("bound by", (*bounds[:-1], *["–"] * bool(self.layers), bounds[-1]), is_text=True),
            ),
            f"{self.memory!r}; {self.whole.measured.verdict}",
        )

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Profiler:
    """Measures model objects: anything with `forward` or `__call__`, from any library, in which arrays are ndarrays.

    Parameters and inputs may be arrays, or tensors: objects that carry an ndarray in `data`. FLOPs are counted by
    tracing what the model does, never by the names of its classes, for the whole batch.

    Parameters
    ----------
    threads : int
        Threads that BLAS may use.
    seconds : float
        Time to spread the samples of a measurement over.
    machine : Machine
        Whose roofs predict; this machine if not given.

    Examples
    --------
    >>> import numpy as np
    >>> from accel.profiler import Profiler
    >>> class Linear:
    ...     def __init__(self, inputs, outputs):
    ...         self.weight = np.ones((inputs, outputs), np.float32)
    ...         self.bias = np.zeros(outputs, np.float32)
    ...     def forward(self, x):
    ...         return x @ self.weight + self.bias
    >>> layer, x = Linear(100, 50), np.ones((32, 100), np.float32)
    >>> profiler = Profiler()
    >>> profiler.count_parameters(layer)
    5050
    >>> profiler.count_flops(layer, x) == 32 * (2 * 100 * 50 + 50)
    True
    """

    def __init__(self, *, threads: int = 1, seconds: float = 0.6, machine: Machine | None = None) -> None:
        self.threads = positive_count(threads, "threads")
        if not 0 < seconds < math.inf:
            raise ValueError(f"seconds is a positive time to spread the samples over; got {seconds!r}.")
        self.seconds = seconds
        self._machine = machine

    @property
    def machine(self) -> Machine:
        """The machine that predictions are for."""
        if self._machine is None:
            from accel.calibration import this_machine

            self._machine = this_machine()
        return self._machine

    def count_parameters(self, model: Any) -> int:
        """Return the number of parameters; one that is used in two places counts once.

        They are what `model.parameters()` gives, or else every floating-point array that the model and its layers keep.
        """
        return sum(array.size for array in models.parameters(model))

    def count(self, model: Any, *inputs: Any) -> Cost:
        """Return what one forward pass costs: FLOPs, special functions, bytes, calls.

        Parameters
        ----------
        *inputs
            Arrays, tensors, or `accel.array_like(shape, dtype)`, with which nothing is computed.

        Raises
        ------
        TypeError
            If the model can not be run, or an input is of a kind that `accel.trace` refuses.
        Exception
            Whatever the model raises, untouched.
        """
        return _traced(model, inputs).cost

    def count_flops(self, model: Any, *inputs: Any) -> int:
        """Return the FLOPs of one forward pass: a fused multiply-add is two, `exp` and its like are none."""
        return self.count(model, *inputs).flops

    def measure_latency(self, model: Any, *inputs: Any) -> Measurement:
        """Return the time of a forward pass: `best_seconds` to compare, `median_seconds` to expect."""
        name = models.name_of(model)
        return self._measured({name: lambda: models.run(model, *inputs)})[name]

    def measure_memory(self, model: Any, *inputs: Any) -> ModelMemory:
        """Return the memory of parameters and input, and what a pass allocates beyond them at its peak."""
        parameter_bytes = sum(array.nbytes for array in models.parameters(model))
        models.run(model, *inputs)  # what a first pass sets up stays
        memory = measure_memory(lambda: models.run(model, *inputs))
        given = [array.nbytes for value in inputs if (array := models.array_of(value)) is not None]
        return ModelMemory(parameter_bytes, sum(given), memory.peak_bytes, memory.method)

    def profile_layer(self, layer: Any, *inputs: Any, name: str | None = None) -> LayerProfile:
        """Return the parameters, cost, prediction and latency of one layer, or of a model as one."""
        name = name or models.name_of(layer)
        parameters = models.parameters(layer)
        return self._profile(name, layer, parameters, [(inputs, {})], self.measure_latency(layer, *inputs))

    def profile_forward_pass(self, model: Any, *inputs: Any) -> ForwardProfile:
        """Return the profile of a model and of each layer that it holds directly.

        The model runs once while the arguments of its layers are noted. Then it and each layer, on those arguments, are
        measured in turn. A layer that the pass does not call has no row. Layers run many times: one that changes what
        it keeps (a cache of keys) is measured as it changes.
        """
        layers = models.children(model)
        parameters = {name: models.parameters(layer) for name, layer in layers.items()}
        own = models.parameters(model)
        noted = {name: calls for name, calls in models.recorded_calls(model, *inputs).items() if calls}
        whole = models.name_of(model)
        jobs: dict[str, Callable[[], Any]] = {whole: lambda: models.run(model, *inputs)}
        jobs |= {f"layer {name}": _repeat(layers[name], calls) for name, calls in noted.items()}
        measured = self._measured(jobs)
        return ForwardProfile(
            machine=self.machine.cpu_name,
            threads=self.threads,
            whole=self._profile(whole, model, own, [(inputs, {})], measured[whole]),
            layers=tuple(
                self._profile(name, layers[name], parameters[name], calls, measured[f"layer {name}"])
                for name, calls in noted.items()
            ),
            memory=self.measure_memory(model, *inputs),
        )

    def _measured(self, jobs: dict[str, Callable[[], Any]]) -> dict[str, Measurement]:
        allocator.settle()
        with limited(self.threads):
            return measure_calls(jobs, seconds=self.seconds)

    def _profile(
        self, name: str, layer: Any, parameters: Any, calls: list[tuple[Any, Any]], measured: Measurement
    ) -> LayerProfile:
        cost, predicted, bounds = Cost(), 0.0, []
        with limited(self.threads):
            for arguments, keywords in calls:
                traced = timed_trace(*models.traceable(layer, arguments, keywords))
                prediction = predict_trace(traced, self.machine, threads=self.threads)
                cost, predicted = cost + prediction.cost, predicted + prediction.seconds
                bounds.append((prediction.seconds, prediction.bound_by))
        return LayerProfile(
            name=name,
            kind=type(layer).__name__,
            calls=len(calls),
            parameters=sum(array.size for array in parameters),
            parameter_bytes=sum(array.nbytes for array in parameters),
            cost=cost,
            predicted_seconds=predicted,
            bound_by=max(bounds)[1],
            measured=measured,
        )


def _traced(model: Any, inputs: tuple[Any, ...]) -> Trace:
    function, arrays, kept = models.traceable(model, inputs, {})
    if any(isinstance(value, ShapeArray) for value in arrays):
        kept = {name: array_like(array.shape, array.dtype) for name, array in kept.items()}
    return trace(function, *arrays, **kept)


def _repeat(layer: Any, calls: list[tuple[Any, Any]]) -> Callable[[], Any]:
    """Return a call that makes all of these."""

    def repeat() -> None:
        for arguments, keywords in calls:
            models.run(layer, *arguments, **keywords)

    return repeat
