"""Run the chapters as Colab would: its versions of the libraries, two CPUs, and a limit on memory.

    python tests/colab/run.py [book/roofline …]        # all pages with code by default; what `make colab` runs

The environment is made in `_build/colab`. Each page's kernel is watched: the most memory that it ever held is printed,
and more than 2 GB is a failure. A page that raises is one too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

import jupytext
import nbclient
import psutil
from jupyter_client import AsyncKernelManager

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pages import ROOT, source_of, table_of_contents

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
CPUS = 2
MEMORY_BYTES = 2_000_000_000
CELL_SECONDS = 300


def make_environment(folder: Path) -> Path:
    """Return the Python of an environment with Colab's versions and accel as it is now."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True, clear=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Not an editable install: on Colab, too, pip builds the package.
    subprocess.run([*install, "-r", REQUIREMENTS, "-c", REQUIREMENTS, f"{ROOT}[chapters]"], check=True)
    return python


def pages_with_code() -> list[str]:
    """Return the pages that are notebooks."""
    return [page for page in table_of_contents() if "{code-cell}" in source_of(page)]


def peak_bytes(process: int) -> int:
    """Return the most memory that a process held so far, resident."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


class ColabKernel(AsyncKernelManager):
    """A kernel of the given Python on two CPUs."""

    python = ""

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        """Name the interpreter of the environment, whatever kernels are installed."""
        return [self.python, "-m", "ipykernel_launcher", "-f", self.connection_file, *(extra_arguments or [])]


def execute(page: str, python: Path) -> int:
    """Run a page from top to bottom and return the peak memory of its kernel in bytes."""
    notebook = jupytext.reads(source_of(page), fmt="md:myst")
    kernel = ColabKernel()
    kernel.python = str(python)
    client = nbclient.NotebookClient(
        notebook, km=kernel, timeout=CELL_SECONDS, resources={"metadata": {"path": str(ROOT / "book")}}
    )
    peak = 0

    def look(**_: object) -> None:
        nonlocal peak
        peak = max(peak, peak_bytes(kernel.provisioner.pid))

    client.on_cell_executed = look
    try:
        client.execute()
    except nbclient.exceptions.DeadKernelError as error:
        done = sum(bool(cell.get("execution_count")) for cell in notebook.cells)
        raise RuntimeError(
            f"the kernel died after {done} cells, with {peak / 1e9:.2f} GB at most until then"
        ) from error
    return peak


def main() -> None:
    """Run the pages and print a line for each; the exit status counts the pages that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", help="such as book/roofline; all pages with code by default")
    parser.add_argument("--environment", type=Path, default=ROOT / "_build" / "colab")
    options = parser.parse_args()
    python = make_environment(options.environment)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(psutil.Process().cpu_affinity())[:CPUS])
    # Only what pip installed: a checkout on the path would hide what the package lacks.
    os.environ.pop("PYTHONPATH", None)
    # A kernel that crashes says where; that it cannot debug frozen modules is of no interest.
    os.environ |= {"PYTHONFAULTHANDLER": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    failures = 0
    for page in options.pages or pages_with_code():
        try:
            peak = execute(page, python)
        except (nbclient.exceptions.CellExecutionError, RuntimeError) as error:
            failures += 1
            print(f"{page}: FAILED\n{error}", flush=True)
            continue
        too_much = peak > MEMORY_BYTES
        failures += too_much
        print(f"{page}: {peak / 1e9:.2f} GB at most{', more than the limit' if too_much else ''}", flush=True)
    raise SystemExit(failures)


if __name__ == "__main__":
    main()
