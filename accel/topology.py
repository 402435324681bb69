"""Topology: the data caches of this computer and how many CPUs share each, reconciled from several sources.

No source is believed alone, because each is known to be wrong somewhere: glibc reports the L3 of a whole AMD package
instead of the part one core sees, virtual machines invent levels, py-cpuinfo confuses a total with a core's share.

The rule
--------
1. A source with an implausible level (`objection` says which) is dropped whole.
2. For each level and each property, the value that most sources give is taken.
3. In a tie the source named first is taken: the operating system's own tables before anything else.
4. If nothing plausible is left, `ASSUMED_CACHES` is used. Everything dropped, outvoted or assumed is noted.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel.machine import Cache
from accel.units import format_bytes

__all__ = [
    "ASSUMED",
    "ASSUMED_CACHES",
    "Level",
    "from_cpuinfo",
    "from_getconf",
    "from_lscpu",
    "from_sysctl",
    "from_sysfs",
    "from_windows",
    "objection",
    "parse_size",
    "reconcile",
]

ASSUMED = "assumed: "
"""Every note about something that could not be found and was assumed begins so."""

ASSUMED_CACHES = (
    Cache(level=1, size_bytes=32 << 10, line_bytes=64, ways=8, shared_by_cpus=1),
    Cache(level=2, size_bytes=256 << 10, line_bytes=64, ways=8, shared_by_cpus=1),
)
"""Caches no larger than those of any CPU sold for computing since 2010: blocks sized for them fit everywhere."""

_LARGEST_BYTES = {1: 1 << 20, 2: 256 << 20, 3: 4 << 30, 4: 16 << 30}


@dataclass(frozen=True)
class Level:
    """One level of data cache as one source reports it; None where the source does not say."""

    level: int
    size_bytes: int
    line_bytes: int | None = None
    ways: int | None = None
    shared_by_cpus: int | None = None


def reconcile(
    sources: Sequence[tuple[str, tuple[Level, ...]]], logical_cpus: int
) -> tuple[tuple[Cache, ...], tuple[str, ...]]:
    """Return the caches by the module's rule, and notes on what was dropped, outvoted or assumed.

    `sources` are (name, levels) in order of preference; a source without levels was not available.

    >>> from accel.topology import Level, reconcile
    >>> here = (Level(1, 32768, line_bytes=64), Level(2, 1 << 20), Level(3, 32 << 20))
    >>> there = (Level(1, 32768), Level(2, 1 << 20), Level(3, 256 << 20))
    >>> caches, notes = reconcile([("sysfs", here), ("getconf", there)], logical_cpus=2)
    >>> [cache.size_bytes // 1024 for cache in caches]
    [32, 1024, 32768]
    >>> notes
    ('L3 size: sysfs says 32 MB, getconf says 256 MB; 32 MB is used',)
    """
    notes: list[str] = []
    believed = list(_plausible(sources, logical_cpus, notes))
    if not believed:
        sizes = " and ".join(f"{cache.name} {format_bytes(cache.size_bytes)}" for cache in ASSUMED_CACHES)
        return ASSUMED_CACHES, (*notes, f"{ASSUMED}no plausible source of cache sizes was found; {sizes} are used")
    if len(believed) == 1:
        notes.append(f"cache sizes come from {believed[0][0]} alone: no second source could confirm them")
    merged = tuple(_merge(believed, notes))
    if reason := objection(merged, logical_cpus):
        name, merged = believed[0]
        notes.append(f"the sources contradict each other ({reason}); {name} alone is used")
    return tuple(_complete(level, logical_cpus) for level in merged), tuple(notes)


def objection(levels: Sequence[Level], logical_cpus: int) -> str:
    """Say what makes these levels implausible; empty where nothing does.

    Sizes must grow from level to level, be whole 4 KB pages with an odd factor below 512 (real caches are small
    multiples of powers of two), lines must be 32, 64 or 128 bytes, and no more CPUs can share a cache than there are.

    >>> from accel.topology import Level, objection
    >>> objection((Level(1, 32768, line_bytes=64), Level(2, 16384)), logical_cpus=2)
    'L2 of 16 KB is not larger than the level before it'
    """
    if not levels or levels[0].level != 1:
        return "there is no L1 data cache"
    below = 0
    for level in levels:
        name, size = f"L{level.level}", level.size_bytes
        if size <= below:
            return f"{name} of {format_bytes(size)} is not larger than the level before it"
        if size % 4096 or _odd_part(size) >= 512 or size > _LARGEST_BYTES.get(level.level, 0):
            return f"{name} of {size:,} bytes is not a size that caches have"
        if level.line_bytes not in {None, 32, 64, 128}:
            return f"{name} lines of {level.line_bytes} bytes do not exist"
        if level.shared_by_cpus is not None and not 1 <= level.shared_by_cpus <= logical_cpus:
            return f"{name} cannot be shared by {level.shared_by_cpus} of {logical_cpus} CPUs"
        below = size
    return ""


def _plausible(
    sources: Sequence[tuple[str, tuple[Level, ...]]], logical_cpus: int, notes: list[str]
) -> Iterator[tuple[str, tuple[Level, ...]]]:
    for name, levels in sources:
        if not levels:
            notes.append(f"{name}: reports no caches here")
        elif reason := objection(levels, logical_cpus):
            notes.append(f"{name}: dropped, because {reason}")
        else:
            yield name, levels


def _merge(sources: Sequence[tuple[str, tuple[Level, ...]]], notes: list[str]) -> Iterator[Level]:
    for number in sorted({level.level for _, levels in sources for level in levels}):
        reports = {name: level for name, levels in sources for level in levels if level.level == number}
        size = _vote({name: level.size_bytes for name, level in reports.items()})
        assert size is not None
        agreeing = [name for name, level in reports.items() if level.size_bytes == size]
        if len(agreeing) < len(reports):
            said = ", ".join(f"{name} says {format_bytes(level.size_bytes)}" for name, level in reports.items())
            notes.append(f"L{number} size: {said}; {format_bytes(size)} is used")
        # What goes with a size is taken from the sources that report that size.
        yield Level(
            level=number,
            size_bytes=size,
            line_bytes=_vote({name: reports[name].line_bytes for name in agreeing}),
            ways=_vote({name: reports[name].ways for name in agreeing}),
            shared_by_cpus=_vote({name: reports[name].shared_by_cpus for name in agreeing}),
        )


def _vote(values: Mapping[str, int | None]) -> int | None:
    # Counter keeps the order of insertion among equals: ties go to the source named first.
    ranked = Counter(value for value in values.values() if value is not None).most_common(1)
    return ranked[0][0] if ranked else None


def _complete(level: Level, logical_cpus: int) -> Cache:
    """Fill in what no source said: 64-byte lines, a private cache up to L2, one shared by all beyond it."""
    shared = level.shared_by_cpus or (1 if level.level <= 2 else logical_cpus)
    return Cache(level.level, level.size_bytes, level.line_bytes or 64, level.ways, shared)


# ---------------------------------------------------------------------------------------------------- the sources


def from_sysfs(root: Path, cpus: Iterable[int]) -> tuple[tuple[Level, ...], tuple[str, ...]]:
    """Read ``/sys/devices/system/cpu`` below `root` for the given CPUs: the caches of the fastest, and notes.

    Where the CPUs have different caches (a hybrid processor) those with the largest L1 are the fast ones.
    """
    kinds = Counter(levels for cpu in cpus if (levels := _sysfs_cpu(root / f"sys/devices/system/cpu/cpu{cpu}/cache")))
    if not kinds:
        return (), ()
    fastest = max(kinds, key=lambda levels: [level.size_bytes for level in levels[:2]])
    if len({tuple(level.size_bytes for level in levels) for levels in kinds}) == 1:
        return fastest, ()
    return fastest, ("CPUs differ in their caches (a hybrid processor): those of the fast cores are used",)


def _sysfs_cpu(directory: Path) -> tuple[Level, ...]:
    levels = []
    for index in sorted(directory.glob("index[0-9]*")):
        fields = {name: _line(index / name) for name in ("level", "type", "size", "shared_cpu_list")}
        size = parse_size(fields["size"])
        if fields["type"] not in {"Data", "Unified"} or not fields["level"].isdecimal() or size is None:
            continue
        levels.append(
            Level(
                level=int(fields["level"]),
                size_bytes=size,
                line_bytes=_positive(_line(index / "coherency_line_size")),
                ways=_positive(_line(index / "ways_of_associativity")),
                shared_by_cpus=_count_cpus(fields["shared_cpu_list"]),
            )
        )
    return tuple(sorted(levels, key=lambda level: level.level))


def from_lscpu(text: str, logical_cpus: int) -> tuple[Level, ...]:
    """Read the output of ``lscpu -B -C -J``.

    lscpu gives the size of one cache and of all together: where their ratio is a whole number of caches that divides
    the CPUs evenly, it tells how many share one.
    """
    levels = []
    for entry in _json_list(text, "caches"):
        size, number = parse_size(str(entry.get("one-size"))), _positive(entry.get("level"))
        if entry.get("type") not in {"Data", "Unified"} or number is None or size is None:
            continue
        levels.append(
            Level(
                level=number,
                size_bytes=size,
                line_bytes=_positive(entry.get("coherency-size")),
                ways=_positive(entry.get("ways")),
                shared_by_cpus=_sharing(size, parse_size(str(entry.get("all-size"))), logical_cpus),
            )
        )
    return tuple(sorted(levels, key=lambda level: level.level))


def from_getconf(text: str) -> tuple[Level, ...]:
    """Read the output of ``getconf -a``: on x86 the C library asks the CPUID instruction itself."""
    values = dict(line.split(None, 1) for line in text.splitlines() if len(line.split(None, 1)) == 2)
    levels = []
    for number, prefix in ((1, "LEVEL1_DCACHE"), (2, "LEVEL2_CACHE"), (3, "LEVEL3_CACHE"), (4, "LEVEL4_CACHE")):
        if size := _positive(values.get(f"{prefix}_SIZE")):
            line, ways = _positive(values.get(f"{prefix}_LINESIZE")), _positive(values.get(f"{prefix}_ASSOC"))
            levels.append(Level(number, size, line_bytes=line, ways=ways))
    return tuple(levels)


def from_sysctl(text: str, prefix: str = "hw.") -> tuple[Level, ...]:
    """Read the output of ``sysctl hw`` of macOS: under ``"hw.perflevel0."`` the fast cores, under ``"hw."`` all.

    On Apple's own processors the plain names describe the slow cores, so `reconcile` must be given the fast ones first.
    """
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    line_bytes = _positive(values.get("hw.cachelinesize"))
    # On Intel: how many CPUs share the memory, the L1, the L2 and the L3.
    config = values.get("hw.cacheconfig", "").split() if prefix == "hw." else []
    levels = []
    for number, name in ((1, "l1dcachesize"), (2, "l2cachesize"), (3, "l3cachesize")):
        size = _positive(values.get(prefix + name))
        if size is None:
            continue
        shared = _positive(values.get(f"{prefix}cpusperl{number}"))
        if shared is None and "hw.nperflevels" not in values and number < len(config):
            shared = _positive(config[number])
        levels.append(Level(number, size, line_bytes=line_bytes, shared_by_cpus=shared))
    return tuple(levels)


def from_windows(data: bytes, pointer_bytes: int = 8) -> tuple[Level, ...]:
    """Read the array of structures that ``GetLogicalProcessorInformation`` of Windows fills in.

    The layout is that of SYSTEM_LOGICAL_PROCESSOR_INFORMATION: a mask of CPUs, a kind (2 is a cache), then level,
    ways, bytes in a line, size and type (0 unified, 2 data).
    """
    layout = struct.Struct("<Q I 4x BBHII 4x" if pointer_bytes == 8 else "<I I BBHII 4x")
    found: dict[int, Level] = {}
    whole = len(data) - len(data) % layout.size
    for mask, relationship, number, ways, line, size, kind in layout.iter_unpack(data[:whole]):
        if relationship == 2 and kind in {0, 2}:
            # A way count of 255 means fully associative.
            level = Level(number, size, line, ways if 0 < ways < 255 else None, mask.bit_count())
            found.setdefault(number, level)
    return tuple(found[number] for number in sorted(found))


def from_cpuinfo(info: Mapping[str, object]) -> tuple[Level, ...]:
    """Read what ``cpuinfo.get_cpu_info()`` of py-cpuinfo returns."""
    levels = []
    for number, name in ((1, "l1_data_cache"), (2, "l2_cache"), (3, "l3_cache")):
        if size := _positive(info.get(f"{name}_size")):
            line, ways = _positive(info.get(f"{name}_line_size")), _positive(info.get(f"{name}_associativity"))
            levels.append(Level(number, size, line_bytes=line, ways=ways))
    return tuple(levels)


# ---------------------------------------------------------------------------------------------------- small readers


def parse_size(text: str) -> int | None:
    """Return the bytes of a size as Linux tools write it, or None.

    >>> from accel.topology import parse_size
    >>> parse_size("32768K"), parse_size("1.25M"), parse_size("65536"), parse_size("none")
    (33554432, 1310720, 65536, None)
    """
    text = text.strip()
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:])
    number = text if unit is None else text[:-1]
    if not number.replace(".", "", 1).isdecimal():
        return None
    return round(float(number) * (unit or 1)) or None


def _sharing(one: int, everything: int | None, logical_cpus: int) -> int | None:
    if everything is None or everything % one:
        return None
    instances = everything // one
    return logical_cpus // instances if instances and logical_cpus % instances == 0 else None


def _count_cpus(ranges: str) -> int | None:
    """Count the CPUs of a list such as ``0-3,8``."""
    count = 0
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return None
        count += int(last or first) - int(first) + 1
    return count


def _positive(value: object) -> int | None:
    if isinstance(value, str):
        value = int(value) if value.strip().isdecimal() else None
    return value if isinstance(value, int) and value > 0 else None


def _odd_part(number: int) -> int:
    return number // (number & -number)


def _json_list(text: str, key: str) -> list[dict[str, object]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return []
    entries = document.get(key) if isinstance(document, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
