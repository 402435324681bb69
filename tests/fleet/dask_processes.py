"""Schedulers and workers as processes of their own, on loopback, which tests may kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from accel import hardware
from accel.probes import MIB, Plan, plan_for

START_SECONDS = 60.0
_DIES_WITH_ITS_PARENT = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
"""Also when pytest itself is killed."""


def small_plan() -> Plan:
    """Return the least that a calibration can be made of: a second or two."""
    sizes = (2**14, 2**18, 32 * MIB)
    return replace(
        plan_for(hardware.detect(), quick=True),
        limit_seconds=0.1,
        seconds_per_probe=5e-4,
        working_sets=sizes,
        roof_working_sets=sizes,
        scattered_working_sets=sizes[:1],
        dtypes=("float32",),
        thread_counts=(1,),
        stream_shapes=("1R1W",),
        operations=("add", "exp"),
        products=((64, 64, 64), (256, 256, 256)),
        families=(),
        compiled_streams=("load", "copy"),
    )


@dataclass
class Cluster:
    """A scheduler process and its workers."""

    folder: Path
    scheduler: subprocess.Popen
    address: str
    stack: ExitStack
    workers: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start_worker(
        self, name: str, *arguments: str, host: str = "127.0.0.1", environment: dict[str, str] | None = None
    ) -> subprocess.Popen:
        """Start a worker of one thread; with ``--nanny`` among the arguments, it is started again when it dies."""
        nanny = [] if "--nanny" in arguments else ["--no-nanny"]
        command = [
            "worker", self.address, "--name", name, "--host", host, "--nthreads", "1", "--no-dashboard",
            "--local-directory", str(self.folder / name), "--death-timeout", "30", *nanny, *arguments,
        ]  # fmt: skip
        self.workers[name] = self.stack.enter_context(_process(self.folder, name, command, environment))
        return self.workers[name]

    def kill_scheduler(self) -> None:
        os.kill(self.scheduler.pid, signal.SIGKILL)


@contextmanager
def dask_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a scheduler until the block ends; all processes are gone then."""
    contact = folder / "scheduler.json"
    anywhere = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    command = ["scheduler", *anywhere, "--scheduler-file", str(contact)]
    with ExitStack() as stack:
        scheduler = stack.enter_context(_process(folder, "scheduler", command, None))
        deadline = time.monotonic() + START_SECONDS
        while not contact.exists() or not contact.read_text():
            if time.monotonic() > deadline or scheduler.poll() is not None:
                raise RuntimeError(f"the scheduler does not start: {(folder / 'scheduler.log').read_text()}")
            time.sleep(0.05)
        yield Cluster(folder, scheduler, json.loads(contact.read_text())["address"], stack)


@contextmanager
def _process(
    folder: Path, name: str, arguments: list[str], environment: dict[str, str] | None
) -> Iterator[subprocess.Popen]:
    """Run one part of Dask in a process group of its own, so that a nanny's worker ends with it."""
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(
            [*_DIES_WITH_ITS_PARENT, sys.executable, "-m", "dask", *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(environment or {})},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
