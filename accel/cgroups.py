"""Cgroups: the CPU time and memory that a Linux container allows this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from accel.records import Record

__all__ = ["Limits", "limits", "parse_cpu_max", "parse_memory_limit"]

# Version 1 writes "no memory limit" as the largest multiple of the page size below 2**63.
_NO_MEMORY_LIMIT_BYTES = 1 << 60


@dataclass(frozen=True)
class Limits(Record):
    """What the cgroups of a process allow it; None where nothing limits it."""

    cpus: float | None
    """CPUs' worth of time per period, such as 1.5."""
    memory_bytes: int | None


@dataclass(frozen=True)
class _Mount:
    kind: str
    root: PurePosixPath
    point: PurePosixPath
    options: frozenset[str]


def limits(root: Path = Path("/")) -> Limits:
    """Return the tightest limits set by this process's own cgroup or by any cgroup around it.

    Version 1 and version 2 hierarchies are both read, and so is the mixture of the two. `root` is the root of the
    file system, where ``proc`` and ``sys`` lie. Where there are no cgroups (macOS, Windows) nothing is limited.

    See https://docs.kernel.org/admin-guide/cgroup-v2.html for version 2.
    """
    cpus = [
        quota for directory in _directories(root, "cpu") if (quota := parse_cpu_max(_cpu_max(directory))) is not None
    ]
    memory = [
        limit
        for directory in _directories(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := parse_memory_limit(_text(directory / name))) is not None
    ]
    return Limits(cpus=min(cpus, default=None), memory_bytes=min(memory, default=None))


def parse_cpu_max(text: str) -> float | None:
    """Return the CPUs that a ``cpu.max`` file grants, or None where it sets no limit.

    >>> from accel.cgroups import parse_cpu_max
    >>> parse_cpu_max("150000 100000")
    1.5
    >>> parse_cpu_max("max 100000") is None
    True
    """
    match text.split():
        case [quota, period] if quota.isdecimal() and period.isdecimal() and int(quota) > 0 and int(period) > 0:
            return int(quota) / int(period)
    return None


def parse_memory_limit(text: str) -> int | None:
    """Return the bytes that a ``memory.max`` or ``memory.limit_in_bytes`` file grants, or None for no limit.

    >>> from accel.cgroups import parse_memory_limit
    >>> parse_memory_limit("2147483648")
    2147483648
    >>> parse_memory_limit("9223372036854771712") is None
    True
    """
    text = text.strip()
    if not text.isdecimal() or not 0 < int(text) < _NO_MEMORY_LIMIT_BYTES:
        return None
    return int(text)


def _cpu_max(directory: Path) -> str:
    # Version 1 keeps in two files what version 2 keeps in one; its "no limit" is -1.
    return _text(directory / "cpu.max") or " ".join(
        _text(directory / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    )


def _directories(root: Path, controller: str) -> Iterator[Path]:
    """Yield the directory of this process's cgroup and of each cgroup around it, in every hierarchy that counts."""
    membership = _membership(_text(root / "proc/self/cgroup"))
    for mount in _mounts(_text(root / "proc/self/mountinfo")):
        if mount.kind == "cgroup2":
            own = membership.get("")
        elif controller in mount.options:
            own = membership.get(controller)
        else:
            continue
        if own is not None:
            inside = _inside(mount, own)
            for part in (inside, *inside.parents):
                yield root / mount.point.relative_to("/") / part


def _membership(text: str) -> dict[str, PurePosixPath]:
    """Map each controller to this process's cgroup; version 2 has the empty name."""
    groups = {}
    for line in text.splitlines():
        match line.split(":", 2):
            case [_, controllers, path]:
                groups.update(dict.fromkeys(controllers.split(","), PurePosixPath(path)))
    return groups


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind_fields = before.split(), after.split()
        if dash and len(fields) >= 5 and len(kind_fields) >= 3 and kind_fields[0] in {"cgroup", "cgroup2"}:
            yield _Mount(
                kind=kind_fields[0],
                root=PurePosixPath(_unescape(fields[3])),
                point=PurePosixPath(_unescape(fields[4])),
                options=frozenset(kind_fields[2].split(",")),
            )


def _inside(mount: _Mount, group: PurePosixPath) -> PurePosixPath:
    """Return where a cgroup lies below a mount point.

    A container sees its own part of the tree mounted, but may be told its path from the host's root: a group that is
    not below the mounted part is the mount point itself.
    """
    if ".." not in group.parts and group.is_relative_to(mount.root):
        return group.relative_to(mount.root)
    return PurePosixPath()


def _unescape(path: str) -> str:
    # The kernel writes these four characters of a mount point in octal.
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, character)
    return path


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
