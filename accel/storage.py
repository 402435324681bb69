"""Storage: saves calibrated machines, and gives back only what can be trusted.

A saved machine is a JSON document with the schema it was written for and a SHA-256 digest over the text of the machine.
A file that was cut short, edited, or written by something else is refused with the reason: never trusted in part.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import math
import os
import secrets
import stat
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path

from accel import documents
from accel.machine import SCHEMA, Calibration, Machine
from accel.records import RecordError

__all__ = [
    "MachineFileError",
    "directory",
    "find",
    "implausible",
    "load",
    "path_for",
    "references",
    "save",
    "writable_path",
]

_KIND = documents.Kind("machine", SCHEMA)
_REMEDY = "measure anew with `python -m accel calibrate`"


class MachineFileError(ValueError):
    """Raised for a file that is not a whole, unaltered, plausible saved machine; says why and what to do.

    Attributes
    ----------
    reason : str
        Why, without what to do.
    """

    def __init__(self, source: str, reason: str) -> None:
        self.reason = f"{source} is not used, because {reason}"
        super().__init__(f"{self.reason}; {_REMEDY}")


# ---------------------------------------------------------------------------------------------------- where files lie


def directory() -> Path:
    """Return where machines are kept: ``ACCEL_CACHE_DIR``, or else the user's cache directory.

    A ``~`` at the start of the variable is the home directory, since not every shell, and no service, expands it.
    """
    if chosen := os.environ.get("ACCEL_CACHE_DIR"):
        return Path(os.path.expanduser(chosen))  # unlike Path.expanduser, it keeps the name of an unknown user
    import platformdirs

    return platformdirs.user_cache_path("accel")


def path_for(machine: Machine) -> Path:
    """Return the file that keeps, or would keep, this machine's calibration.

    The name depends on everything that a calibration depends on, hardware and library versions: environments with
    different versions keep theirs side by side.
    """
    text = "\n".join(f"{name}={value}" for name, value in _identity(machine).items())
    return directory() / f"machine-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _identity(machine: Machine) -> dict[str, str]:
    """Return what a calibration depends on, in words: where one of these changes, it no longer holds."""
    caches = ", ".join(f"{c.name} {c.size_bytes} B shared by {c.shared_by_cpus}" for c in machine.caches)
    return {
        "CPU": machine.cpu_name,
        "architecture": machine.architecture,
        "system": machine.system,
        "SIMD width": f"{machine.simd_bits} bit",
        "usable CPUs": str(machine.usable_cpus),
        "caches": caches,
        "BLAS": " ".join(part for part in (machine.blas.name, machine.blas.version) if part),
        "BLAS kernel": machine.blas.kernel or "unknown",
        "python": machine.python_version,
        "numpy": machine.numpy_version,
        "numba": machine.numba_version or "missing",
    }


# ------------------------------------------------------------------------------------------------------------- saving


def save(machine: Machine, path: Path | None = None) -> Path | None:
    """Save a machine, so that `load` or `find` can return it; a reader never sees a half-written file.

    Parameters
    ----------
    machine : Machine
        Calibrated, unless a path is given.
    path : Path, optional
        Where to. By default the user's cache directory, where a full calibration is never replaced by a quick one
        and where a failure to write is a warning, because the calibration itself is still good.

    Returns
    -------
    Path or None
        The file that now holds a calibration of this machine; None where the cache could not be written.

    Raises
    ------
    ValueError
        If the machine is not plausible, or is not calibrated and no path is given.
    OSError
        If a given path cannot be written, or is neither a regular file nor missing.
    """
    if reason := implausible(machine):
        raise ValueError(f"this machine cannot be saved, because {reason}; calibrate it again")
    if path is not None:
        write_atomically(path, _render(machine))
        return path
    if machine.calibration is None:
        raise ValueError("only a calibrated machine is kept, and this one is not; call accel.calibrate() first")
    target = path_for(machine)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_suffix(".lock")):
            if not (machine.calibration.quick and _holds_full_calibration(target)):
                write_atomically(target, _render(machine))
    except OSError as error:
        warnings.warn(
            f"the calibration could not be kept in {target.parent} ({error.strerror or error}); it will be measured "
            "again, unless ACCEL_CACHE_DIR names a folder that can be written",
            stacklevel=2,
        )
        return None
    return target


def writable_path(path: Path) -> Path:
    """Return the file that saving to `path` would write: `path` itself, or what it links to.

    Raises
    ------
    OSError
        If something is there that is not a regular file: a folder, a device, a pipe. Saving would replace it.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise FileExistsError(
            errno.EEXIST, f"it is {documents.kind_of_file(mode)}, and only a regular file is ever replaced", str(path)
        )
    return target


def _render(machine: Machine) -> bytes:
    return documents.render(replace(_KIND, schema=machine.schema), machine)


def _holds_full_calibration(path: Path) -> bool:
    try:
        calibration = load(path).calibration
    except (MachineFileError, OSError):
        return False
    return calibration is not None and not calibration.quick


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by one that is whole, or leave it as it is."""
    path = writable_path(path)
    # The temporary file lies beside the target, because a rename is atomic only within one file system.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        with suppress(OSError):  # it is gone already, unless something failed
            part.unlink()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes, so that looking at a file and replacing it are one step."""
    with open(path, "a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            # Some network file systems have no locks: there the rename alone keeps files whole.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file frees the lock


# ------------------------------------------------------------------------------------------------------------ loading


def load(path: Path | str) -> Machine:
    """Return a saved machine.

    Raises
    ------
    MachineFileError
        If the file is cut short, altered, of another schema, not plausible, not a saved machine at all, or not a
        regular file.
    OSError
        If the file cannot be read.
    """
    try:
        content = documents.content_of(path)
    except documents.DocumentError as error:
        raise MachineFileError(str(path), str(error)) from error
    return _parse(content, str(path))


def _parse(content: bytes, source: str) -> Machine:
    try:
        machine = Machine.from_json(documents.payload(_KIND, content))
    except RecursionError as error:
        raise MachineFileError(source, "it is nested deeper than any saved machine") from error
    except (documents.DocumentError, RecordError) as error:
        raise MachineFileError(source, str(error)) from error
    if reason := implausible(machine):
        raise MachineFileError(source, reason)
    return machine


def find(machine: Machine) -> tuple[Machine | None, str]:
    """Return a detected machine with its kept calibration, or None and in words why the kept one does not hold.

    Both None and an empty reason mean that nothing has been kept yet.

    Parameters
    ----------
    machine : Machine
        As `hardware.detect` returns it.

    Returns
    -------
    machine : Machine or None
        The given machine with its calibration, if hardware and library versions are those it was measured with.
    reason : str
        Such as ``"numpy 2.4.5 then, 2.4.6 now"``; empty where a calibration was found.
    """
    path = path_for(machine)
    try:
        kept = load(path)
    except FileNotFoundError:
        return None, _closest_difference(machine)
    except MachineFileError as error:
        return None, error.reason
    except OSError as error:
        return None, f"{path} cannot be read ({error.strerror or error})"
    difference = _difference(kept, machine)
    if difference or kept.calibration is None:
        return None, difference or f"{path} holds no calibration"
    return machine.with_calibration(kept.calibration), ""


def _closest_difference(machine: Machine) -> str:
    """Say how this machine differs from the most similar one kept; empty where none is."""
    differences = []
    for path in sorted(directory().glob("machine-*.json")):
        try:
            differences.append(_difference(load(path), machine))
        except (MachineFileError, OSError):
            continue
    return min(differences, key=lambda text: text.count(";"), default="")


def _difference(then: Machine, now: Machine) -> str:
    before, after = _identity(then), _identity(now)
    return "; ".join(f"{name} {before[name]} then, {after[name]} now" for name in after if before[name] != after[name])


def references() -> dict[str, Machine]:
    """Return the recorded machines that come with the package, by name.

    Raises
    ------
    MachineFileError
        If one of them was altered since it was recorded.
    """
    folder = resources.files("accel.reference")
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".json")), key=lambda entry: entry.name)
    return {entry.name.removesuffix(".json"): _parse(entry.read_bytes(), f"reference/{entry.name}") for entry in files}


# -------------------------------------------------------------------------------------------------------- plausibility


def implausible(machine: Machine) -> str:
    """Say what no real machine could be or do; empty where nothing is found."""
    counts = [
        machine.logical_cpus,
        machine.affinity_cpus,
        machine.memory_bytes,
        machine.simd_bits,
        machine.blas.threads,
    ]
    if min(counts) < 1 or (machine.quota_cpus is not None and not _positive([machine.quota_cpus])):
        return "CPUs, threads, memory and vector width must be positive"
    if machine.schema != SCHEMA:
        return f"it follows schema {machine.schema}, and this version reads schema {SCHEMA}"
    sizes = [cache.size_bytes for cache in machine.caches]
    if not _increasing(sizes) or not _increasing([cache.level for cache in machine.caches]):
        return f"cache sizes must grow from level to level, and they are {sizes} bytes"
    return "" if machine.calibration is None else _implausible_calibration(machine.calibration)


def _implausible_calibration(calibration: Calibration) -> str:
    rates = [peak.flops_per_second for peak in calibration.peaks]
    rates += [product.seconds for product in calibration.matmuls]
    rates += [calibration.interpreted_seconds, calibration.python_call_seconds, calibration.view_seconds]
    if not _positive([*rates, calibration.duration_seconds, *(overlap.exponent for overlap in calibration.overlaps)]):
        return "measured rates and times must be positive and finite"
    pages = (calibration.allocations, calibration.fresh_pages)
    costs = [
        cost
        for c in calibration.ceilings
        for cost in (c.call_seconds, c.element_seconds, c.row_seconds, c.ramp_seconds)
    ]
    costs += [cost for curve in pages for cost in curve.seconds_per_byte]
    costs += [rate.call_seconds for rate in calibration.rates]
    if not _at_least_zero([*costs, calibration.spread_fraction]):
        return "measured costs and spreads must be finite and not negative"
    for name, sizes, values in _curves(calibration):
        if len(sizes) != len(values) or not _increasing(sizes):
            return f"the working sets of {name} must grow, and each must have one value"
        if not _positive(values):
            return f"the measured curve of {name} must be positive and finite"
    if any(len(p.allocation_bytes) != len(p.seconds_per_byte) or not _increasing(p.allocation_bytes) for p in pages):
        return "the sizes of fresh pages must grow, and each must have one value"
    spreads = [(len(stream.working_set_bytes), stream.spread_fraction) for stream in calibration.streams]
    if any(len(spread) != count or not _at_least_zero(spread) for count, spread in spreads):
        return "each working set of a stream must have one spread, and none may be negative"
    return ""


def _curves(calibration: Calibration) -> Iterator[tuple[str, Sequence[int], Sequence[float]]]:
    for band in calibration.bandwidths:
        yield f"{band.operation!r}", band.working_set_bytes, band.bytes_per_second
    for stream in calibration.streams:
        yield f"{stream.shape!r}", stream.working_set_bytes, stream.seconds_per_byte
    for rate in calibration.rates:
        yield f"{rate.operation!r}", rate.working_set_bytes, rate.seconds_per_unit


def _positive(values: Sequence[float]) -> bool:
    return all(math.isfinite(value) and value > 0 for value in values)


def _at_least_zero(values: Sequence[float]) -> bool:
    return all(math.isfinite(value) and value >= 0 for value in values)


def _increasing(values: Sequence[int]) -> bool:
    return bool(values) and values[0] > 0 and all(a < b for a, b in itertools.pairwise(values))
