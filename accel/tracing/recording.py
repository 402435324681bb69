"""Recording: the array subclass that sees every NumPy call, and the log that it writes."""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns as clock
from typing import Any, NamedTuple

import numpy as np

from accel.cost import Cost
from accel.tracing.memory import address_of, owner_of

__all__ = [
    "ELIDED",
    "Event",
    "Recorder",
    "Seen",
    "Traced",
    "forget",
    "rebuilt",
    "unwrap",
]

LOOKS = frozenset(
    """shape ndim size result_type can_cast min_scalar_type common_type may_share_memory shares_memory iscomplexobj
    isrealobj iscomplex array_repr array_str array2string broadcast_shapes einsum_path""".split()  # noqa: SIM905
)
"""Functions that only look at an array's description, or print it: no call worth a row."""

ELIDED = "elided"
"""Stands in an event for ``out``, where that is a dying operand."""

_TRACER_MODULES = frozenset(
    f"accel.{name}"
    for name in (
        "cost",
        "tensors",
        "tracing.operators",
        "tracing.recording",
        "tracing.scope",
        "tracing.shape_recording",
        "tracing.shapes",
        "tracing.traced",
    )
)
"""Modules whose functions stand between the user's code and the recorder."""

_plain = np.ndarray.view
_new_tuple = tuple.__new__


class Traced(np.ndarray):
    """Base of the array type that `accel.tracing.traced` completes: what a recorder wraps its results in."""

    __slots__ = ("_known",)
    _known: tuple[object, Seen]
    """The token of a recorder and what it saw of the array, where that is all of its base and as it was made."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign a shape, a dtype, strides…: what was seen of the array holds no longer."""
        np.ndarray.__setattr__(self, name, value)
        forget(self)


class Seen(NamedTuple):
    """An array as a call saw it: enough to describe it later without keeping it alive."""

    buffer: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


_UNKNOWN: Any = (None, None)
_set_known: Callable[[Any, tuple[object, Seen]], None] = Traced._known.__set__  # type: ignore[attr-defined]


def forget(array: Any) -> None:
    """Have an array seen again at its next call, because its description or memory has changed."""
    _set_known(array, _UNKNOWN)


class Event(NamedTuple):
    """One recorded call. Times are nanoseconds; `entered` to `left` includes the tracer's own work."""

    kind: str
    function: Any
    """The ufunc, or the name of a function or method."""
    method: str
    arguments: tuple[Any, ...]
    """As passed, each array replaced by what was `Seen` of it."""
    keywords: dict[str, Any]
    results: tuple[Any, ...]
    scalar_results: tuple[np.dtype[Any] | None, ...]
    """Dtypes of results that are scalars and not arrays; None for a Python number."""
    entered: int
    started: int
    ended: int
    left: int
    code: Any
    instruction: int
    """Offset of the calling bytecode in `code`."""
    views: int


class _Death(weakref.ref[Any]):
    """Weak reference to the array that owns a buffer; knows which, when the array is gone."""

    __slots__ = ("buffer", "key")
    buffer: int
    key: int


class Recorder:
    """The log of one traced run: events in order, allocations and frees between them.

    `log` holds an `Event` for a call, a buffer's number where it was allocated, and ``~number`` where it was freed.
    """

    def __init__(self, array_type: type[Any]) -> None:
        self.array_type = array_type
        self.token = object()
        """By which an array that this recorder has seen is told from one that another has."""
        self.log: list[Event | int] = []
        self.buffers: list[tuple[int, int]] = []
        """(nbytes, address) of each buffer, by number."""
        self.labels: dict[int, str] = {}
        self.arguments: dict[int, list[tuple[Seen, str]]] = {}
        """What the caller passed, and under which names, by the number of the memory."""
        self.owners: dict[int, _Death] = {}
        self.views = 0
        self.items = 0
        """Single elements read or written by the interpreter: too small to record, too many to ignore."""
        self.dying = False
        """Set by an operator whose left operand is about to die, for the ufunc call that it makes."""
        self._when_freed = self._freed
        self.busy: set[int] = set()
        """Threads that are inside a NumPy function whose own internal calls are not to be recorded."""

    def create(self, name: str, original: Callable[..., Any], arguments: tuple[Any, ...], keywords: Any) -> Any:
        """Run a function that makes arrays and record it; each array type has its own way."""
        raise NotImplementedError

    def hears_creator(self, frame: Any) -> bool:
        """Tell whether an array made by the code in `frame` belongs to the trace.

        It does not within a NumPy function (that one is the call to record), within NumPy's own modules, or
        while a module is imported, which would keep the traced array for good.
        """
        if get_ident() in self.busy or frame.f_code.co_name == "<module>":
            return False
        return not frame.f_globals.get("__name__", "").startswith("numpy.")

    def adopt(self, owner: Any, nbytes: int, address: int, created: bool) -> int:
        """Give the memory of `owner` a number and follow its life."""
        number = len(self.buffers)
        self.buffers.append((nbytes, address))
        death = _Death(owner, self._when_freed)
        death.buffer, death.key = number, id(owner)
        self.owners[death.key] = death
        if created:
            self.log.append(number)
        return number

    def name(self, argument: Seen, name: str) -> None:
        """Call an argument, and the memory that it is the first to lie in, by a name."""
        self.labels.setdefault(argument.buffer, name)
        self.arguments.setdefault(argument.buffer, []).append((argument, name))

    def _freed(self, death: _Death) -> None:
        self.owners.pop(death.key, None)
        self.log.append(~death.buffer)

    def see(self, array: Any, created: bool = False) -> Seen:
        """Describe an array, numbering its memory at first sight."""
        owner = array if array.base is None else owner_of(array)
        address = address_of(array)
        death = self.owners.get(id(owner))
        if death is not None:
            number = death.buffer
        else:
            number = self.adopt(owner, owner.nbytes, address if owner is array else address_of(owner), created)
        return _new_tuple(Seen, (number, address, array.shape, array.strides, array.dtype))

    def wrap(self, array: np.ndarray, created: bool = False) -> tuple[Any, Seen]:
        """Return an array of the recorder's type on the memory of a plain one, and what is seen of it."""
        seen = self.see(array, created)
        wrapped = _plain(array, self.array_type)
        if wrapped.base is array and type(array) is np.ndarray:
            _set_known(wrapped, (self.token, seen))
        return wrapped, seen

    def knows(self, array: np.ndarray) -> bool:
        """Tell whether the array's memory has been seen before: it is then a view, and no new allocation."""
        return id(array if array.base is None else owner_of(array)) in self.owners

    def ufunc(
        self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any], elided: bool = False
    ) -> Any:
        """Run a ufunc (or one of its methods) on plain arrays and record it.

        `elided` tells that its ``out`` is a dying operand, which the caller did not name.
        """
        entered = clock()
        plain, seen_inputs = self._read(inputs)
        run: Callable[..., Any] = ufunc
        if method != "__call__":
            run = getattr(ufunc, method)
            if method == "at":
                plain[0] = unwrap(inputs[0])
        options = {name: _unwrapped(value) for name, value in keywords.items()} if keywords else keywords
        started = clock()
        result = run(*plain, **options)
        ended = clock()
        value: Any
        seen: tuple[Any, ...]
        scalars: tuple[Any, ...] = ()
        if method == "at":
            value, seen = None, (seen_inputs[0],)
        elif "out" in keywords:
            value, seen = self._into(keywords["out"], result)
        elif type(result) is np.ndarray:
            value, described = self.wrap(result, True)
            seen = (described,)
        else:
            value, seen, scalars = self._wrap_all(result)
        if keywords:
            keywords = {name: name == "out" or self._seen(given) for name, given in keywords.items()}
            if elided:
                keywords["out"] = ELIDED
        return self.finish(
            "ufunc", ufunc, method, tuple(seen_inputs), keywords, seen, value, scalars, entered, started, ended
        )

    def _read(self, inputs: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """Return the inputs of a ufunc as plain arrays, and what is seen of them.

        Of an array that is known, that is its base as it is: a ufunc only reads it.
        """
        wrapper, token = self.array_type, self.token
        plain, seen = [], []
        for value in inputs:
            kind = type(value)
            if kind is wrapper:
                known = getattr(value, "_known", _UNKNOWN)
                if known[0] is token:
                    plain.append(value.base)
                    seen.append(known[1])
                else:
                    plain.append(_plain(value, np.ndarray))
                    seen.append(self.see(value))
            else:
                plain.append(value)
                seen.append(self.see(value) if isinstance(value, np.ndarray) else value)
        return plain, seen

    def _into(self, out: Any, result: Any) -> tuple[Any, tuple[Seen, ...]]:
        """Return the caller's own output arrays in the place of the plain ones, and what is seen of them."""
        if type(out) is tuple and len(out) == 1 and out[0] is not None:
            return out[0], (self._seen(out[0]),)
        outputs, produced = (x if isinstance(x, tuple) else (x,) for x in (out, result))
        wrapped = tuple([self._wrap(r) if o is None else o for o, r in zip(outputs, produced, strict=True)])
        seen = tuple([self.see(w) for w in wrapped if isinstance(w, np.ndarray)])
        return wrapped if isinstance(result, tuple) else wrapped[0], seen

    def call(
        self,
        kind: str,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        writes: int | None = None,
        updates: int | None = None,
        cost: Cost | None = None,
    ) -> Any:
        """Run a function or method on plain arrays and record it as one call, unless it only makes a view.

        `writes` is the position of an argument that the call overwrites, `updates` how many of its elements if not all;
        `cost` is what a kernel declares.
        """
        entered = clock()
        originals: dict[int, Any] = {}
        plain = [x if type(x) in _PLAIN_TYPES else unwrap(x, originals) for x in arguments]
        options = {k: unwrap(v, originals) for k, v in keywords.items()} if keywords else keywords
        me = get_ident()
        nested = me in self.busy
        self.busy.add(me)
        try:
            started = clock()
            result = function(*plain, **options)
            ended = clock()
        finally:
            if not nested:
                self.busy.discard(me)
        seen_arguments = tuple([x if type(x) in _PLAIN_TYPES else self._seen(x) for x in arguments])
        seen_keywords = {k: self._seen(v) for k, v in keywords.items()} if keywords else {}
        if updates is not None:
            seen_keywords["__updates__"] = updates
        if kind == "declared":
            seen_keywords["__cost__"] = cost
            value, seen, scalars = self._wrap_all(result, originals)
        elif writes is not None:
            value, seen, scalars = result, (seen_arguments[writes],), ()
        elif self._is_new(result, originals) and name not in LOOKS:
            value, described = self.wrap(result, True)
            seen, scalars = (described,), ()
        elif name in LOOKS or self._is_view(result, originals, arguments, keywords):
            self.views += 1
            return self._wrap_all(result, originals)[0]
        else:
            value, seen, scalars = self._wrap_all(result, originals)
        return self.finish(kind, name, "", seen_arguments, seen_keywords, seen, value,
                            scalars, entered, started, ended)  # fmt: skip

    def gather(self, array: Any, index: Any) -> Any:
        """Index an array by one other array, or by a list, and record it as `take`: without what other cases need."""
        entered = clock()
        plain, order = _plain(array, np.ndarray), unwrap(index)
        started = clock()
        result = plain[order]
        ended = clock()
        seen_arguments = self._seen(array), self._seen(index)
        seen: tuple[Any, ...]
        scalars: tuple[Any, ...]
        if type(result) is np.ndarray:
            value, described = self.wrap(result, True)
            seen, scalars = (described,), ()
        else:
            value, seen, scalars = self._wrap_all(result)
        return self.finish("method", "take", "", seen_arguments, {}, seen, value, scalars, entered, started, ended)

    def declared(self, kernel: Any, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Any) -> Any:
        """Run a kernel that declares its cost as one call, whatever happens inside it."""
        if get_ident() in self.busy:
            return function(*arguments, **keywords)
        module, name = kernel.__module__.rpartition(".")[2], kernel.__name__
        cost = kernel.cost(*arguments, **keywords)
        title = name if module == "__main__" else f"{module}.{name}"
        return self.call("declared", title, function, arguments, keywords, cost=cost)

    def _is_new(self, result: Any, originals: dict[int, Any]) -> bool:
        """Tell whether a result is one array with memory of its own that nobody has met: the usual case."""
        if type(result) is not np.ndarray or result.base is not None:
            return False
        return id(result) not in self.owners and id(result) not in originals

    def _is_view(self, result: Any, originals: dict[int, Any], arguments: tuple[Any, ...], keywords: Any) -> bool:
        """Tell whether a call made nothing new: a view of an argument, or the first argument handed back."""
        if type(result) is not np.ndarray:
            if isinstance(result, (tuple, list)) and result and all(type(r) is np.ndarray for r in result):
                return all(id(r) not in originals and self.knows(r) for r in result)
            return False
        if id(result) not in originals:
            return self.knows(result)
        original = originals[id(result)]
        uses = [argument is original for argument in arguments]
        return keywords.get("out") is None and uses[:1] == [True] and not any(uses[1:])

    def finish(
        self, kind: str, function: Any, method: str, arguments: tuple[Any, ...], keywords: dict[str, Any],
        seen: tuple[Any, ...], value: Any, scalars: tuple[Any, ...], entered: int, started: int, ended: int,
    ) -> Any:  # fmt: skip
        """Append the event of a call, made by the nearest caller outside the tracer; return `value`."""
        frame: Any = sys._getframe(2)
        while frame.f_globals["__name__"] in _TRACER_MODULES:
            frame = frame.f_back
        views, self.views = self.views, 0
        self.log.append(
            _new_tuple(Event, (kind, function, method, arguments, keywords, seen, scalars, entered, started, ended,
                               clock(), frame.f_code, frame.f_lasti, views))
        )  # fmt: skip
        return value

    def _wrap(self, value: Any) -> Any:
        if type(value) is not np.ndarray:
            return value
        return self.wrap(value, True)[0]

    def _wrap_all(
        self, value: Any, originals: dict[int, Any] | None = None
    ) -> tuple[Any, tuple[Seen, ...], tuple[Any, ...]]:
        """Wrap the arrays in a result; return it, what was seen of them, and the dtypes of scalars beside them."""
        if originals and id(value) in originals:
            original = originals[id(value)]
            return original, (self._seen(original),), ()
        if type(value) is np.ndarray:
            wrapped, seen = self.wrap(value, True)
            return wrapped, (seen,), ()
        if isinstance(value, (tuple, list)):
            parts = [self._wrap_all(item, originals) for item in value]
            wrapped = rebuilt(value, [part[0] for part in parts])
            return wrapped, tuple(s for part in parts for s in part[1]), tuple(d for part in parts for d in part[2])
        if isinstance(value, np.generic):
            return value, (), (value.dtype,)
        return value, (), (None,) if isinstance(value, (float, int, complex)) else ()

    def _seen(self, value: Any) -> Any:
        """Replace the arrays in an argument by what is seen of them."""
        if type(value) in _PLAIN_TYPES:
            return value
        if type(value) is self.array_type:
            known = getattr(value, "_known", _UNKNOWN)
            return known[1] if known[0] is self.token else self.see(value)
        if isinstance(value, np.ndarray):
            return self.see(value)
        if type(value) in (tuple, list):
            return tuple([self._seen(item) for item in value])
        return value


def rebuilt(container: Any, items: list[Any]) -> Any:
    """Return a tuple or list of the same type with other items; the same one where it has these items already.

    A subclass is not asked: what its constructor takes is its own affair. Its attributes go along.
    """
    if all(map(operator.is_, container, items)):
        return container
    kind = type(container)
    if kind in (tuple, list):
        return kind(items)
    other = tuple.__new__(kind, items) if isinstance(container, tuple) else list.__new__(kind)
    if isinstance(container, list):
        list.extend(other, items)
    if hasattr(container, "__dict__"):
        vars(other).update(vars(container))
    return other


_PLAIN_TYPES = frozenset({int, float, bool, str, slice, type(None), type(Ellipsis)})


def _unwrapped(value: Any) -> Any:
    """As `unwrap`, of a keyword of a ufunc: mostly ``out``, a tuple of one array."""
    if type(value) is tuple and len(value) == 1 and isinstance(value[0], Traced):
        return (_plain(value[0], np.ndarray),)
    return unwrap(value)


def unwrap(value: Any, originals: dict[int, Any] | None = None) -> Any:
    """Replace traced arrays by plain views of them, in tuples, lists and dicts too."""
    kind = type(value)
    if kind in _PLAIN_TYPES:
        return value
    if isinstance(value, Traced):
        plain = _plain(value, np.ndarray)
        if originals is not None:
            originals[id(plain)] = value
        return plain
    if kind is np.ndarray:
        if originals is not None:
            originals[id(value)] = value
        return value
    if kind is tuple or kind is list:
        items = [item if type(item) in _PLAIN_TYPES else unwrap(item, originals) for item in value]
        return value if all(map(operator.is_, value, items)) else kind(items)
    if isinstance(value, (tuple, list)):
        return rebuilt(value, [unwrap(item, originals) for item in value])
    if kind is dict:
        return {key: unwrap(item, originals) for key, item in value.items()}
    return value
