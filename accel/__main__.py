"""The ``accel`` command: looks at this computer, calibrates it, and explains functions on it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from accel.records import Record

__all__ = ["app", "main"]

app = typer.Typer(
    help="Count, predict and measure what NumPy code costs on this machine.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

# Typer brings its own copy of click's exceptions in newer versions: this is the right class with either.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def _print_version(asked: bool) -> None:
    if asked:
        from accel import __version__

        print(f"accel {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Count, predict and measure what NumPy code costs on this machine."""


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colors and styles.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 1 if there is any warning.")] = False,
) -> None:
    """Show this machine, its libraries and measured roofs, and warn of what makes it slow or its timings doubtful.

    The exit status is 0, warnings or not, unless --strict is given.
    """
    from accel.doctor import examine

    checkup = examine()
    if as_json:
        _print_json(checkup)
    else:
        from accel.report import print_checkup

        print_checkup(checkup, _console(no_color=no_color))
    if strict and checkup.warnings:
        raise typer.Exit(1)


@app.command()
def calibrate(
    quick: Annotated[bool, typer.Option("--quick", help="Measure less: 4 s instead of 20 s, and coarser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the calibrated machine as JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Save to this file instead of the user's cache directory.")
    ] = None,
) -> None:
    """Measure this machine's roofs and keep them."""
    from accel import calibration, storage

    if output is not None:
        _check_output(output)
    machine = calibration.calibrate(quick=quick, save=False)
    try:
        path = storage.save(machine, output)
    except OSError as error:
        raise _unwritable(output, error.strerror or str(error)) from error
    if as_json:
        _print_json(machine)
    elif path is not None:
        replaced = storage.load(path) == machine
        print(f"saved to {path}" if replaced else f"the full calibration in {path} is better, and stays")


@app.command()
def machine() -> None:
    """Print the path of the file that keeps this machine's calibration, and on standard error whether it holds."""
    from accel import hardware, storage

    detected = hardware.detect()
    kept, reason = storage.find(detected)
    print(storage.path_for(detected))
    if kept is None:
        print(reason or "nothing is kept there yet; `python -m accel calibrate` measures it", file=sys.stderr)


@app.command()
def explain(
    function: Annotated[str, typer.Argument(help="module:function or path/to/file.py:function.")],
    arrays: Annotated[
        list[str] | None, typer.Option("--array", help="An array argument: name=shape:dtype, as x=2000,2000:float32.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option("--arg", help="Any other argument, as a Python literal: axis=0.")
    ] = None,
    threads: Annotated[int, typer.Option("--threads", help="Threads that BLAS may use.", min=1)] = 1,
    seconds: Annotated[float, typer.Option("--seconds", help="Time to spread the measurement over.", min=0.01)] = 1.2,
    machine: Annotated[
        Path | None, typer.Option("--machine", help="Predict for the machine in this file and measure nothing.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    shapes_only: Annotated[
        bool, typer.Option("--shapes-only", help="Predict from the shapes alone: allocate and run nothing.")
    ] = False,
) -> None:
    """Count, predict and measure every NumPy call of a function, with arrays of random numbers.

    The numbers are the same each time. An exception of the function itself is shown with its traceback, status 1.
    """
    from accel.command import CommandError, prepared

    try:
        call = prepared(
            function,
            arrays or [],
            values or [],
            threads=threads,
            machine_file=machine,
            shapes_only=shapes_only,
        )
    except CommandError as error:
        raise typer.BadParameter(str(error)) from error
    explanation = call.explain(seconds=seconds)
    print(explanation.to_json() if as_json else explanation)


@app.command()
def fleet(
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="Address of a Dask scheduler; without it, workers on this computer."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Measure more: 20 s for each worker instead of 4 s.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the fleet as JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Save to this file instead of fleet.json in the cache directory.")
    ] = None,
) -> None:
    """Measure all workers of a Dask scheduler and the network between them, and name those that stand out.

    The exit status is 1 where the scheduler does not answer or goes away.
    """
    from accel import storage
    from accel.fleet.cluster import FleetLostError, connected
    from accel.fleet.cluster import distributed as check_installed

    try:
        check_installed()
    except ModuleNotFoundError as error:
        raise typer.BadParameter(str(error)) from error
    from accel.fleet.calibrating import calibrate as calibrate_fleet

    if output is not None:
        _check_output(output)
    try:
        with connected(scheduler) as client:
            measured = calibrate_fleet(client, quick=not full)
    except FleetLostError as error:
        print(f"accel: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    path = output or storage.directory() / "fleet.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        measured.save(path)
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from error
    if as_json:
        _print_json(measured)
    else:
        print(measured)
        print(f"saved to {path}")


def _check_output(output: Path) -> None:
    """Refuse what cannot be written before the time for a calibration is spent."""
    from accel import storage

    if output.is_dir() or not output.absolute().parent.is_dir():
        raise _unwritable(output, "name a file in a folder that exists")
    try:
        storage.writable_path(output)
    except OSError as error:
        raise _unwritable(output, error.strerror or str(error)) from error


def _unwritable(output: Path | None, reason: str) -> typer.BadParameter:
    return typer.BadParameter(f"cannot write {output}: {reason}", param_hint="--output")


def _print_json(record: Record) -> None:
    """Print JSON in ASCII, which is the same JSON in every encoding that standard output may have."""
    print(json.dumps(json.loads(record.to_json()), indent=1))


def _never_fail_to_encode(*streams: TextIO) -> None:
    """Let streams write a question mark for what their encoding lacks, such as the µ of microseconds in ASCII."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 for success, 1 for warnings with ``--strict``, 2 for a wrong call.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those the process was started with.
    """
    _never_fail_to_encode(sys.stdout, sys.stderr)
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        status = typer.main.get_command(app).main(given, prog_name="accel", standalone_mode=False)
    except _UsageError as error:
        # One line, whatever the version of Typer would have drawn around it.
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        print(f"accel: {' '.join(message.split())} (`accel --help` lists what there is)", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        print("accel: stopped", file=sys.stderr)
        sys.exit(130)
    sys.exit(status or 0)


def _console(*, no_color: bool) -> Console:
    from rich.console import Console

    from accel.report import WIDTH

    console = Console(color_system=None) if no_color else Console(highlight=False)
    # A pipe has no width of its own; a wide terminal would only stretch the lines.
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


if __name__ == "__main__":
    main()
