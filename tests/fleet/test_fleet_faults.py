"""What happens to a fleet when things go wrong, with real processes that are killed, stopped or out of memory."""

import os
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version

import numpy as np
import pytest
from dask_processes import dask_cluster, small_plan

distributed = pytest.importorskip("distributed", reason="needs pip install 'accel[fleet]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs signals, and further loopback addresses")

from accel import fleet  # noqa: E402

QUICK = {"seconds": 0.01, "progress": False}


def connect(cluster, workers):
    client = distributed.Client(cluster.address, timeout="30s")
    client.wait_for_workers(workers, timeout=60)
    return client


def numbers(n):
    return [np.ones(n)]


def test_a_worker_killed_in_mid_sweep_costs_one_repetition(tmp_path):
    fuse = tmp_path / "fuse"
    fuse.touch()

    def kills_its_worker_once(x):
        if x.size == 30 and fuse.exists():
            fuse.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return x + 1

    with dask_cluster(tmp_path) as cluster:
        cluster.start_worker("first")
        cluster.start_worker("second")
        with connect(cluster, 2) as client:
            functions = {"add": (kills_its_worker_once, numbers)}
            report = fleet.sweep(client, functions, [10, 20, 30, 40, 50], path=tmp_path / "sweep", **QUICK)
    assert [point.size for point in report.finished] == [10, 20, 30, 40, 50]
    assert report.failed == ()
    assert [moved.job for moved in report.rescheduled] == ["add at 30"]
    assert [lost.name for lost in report.lost_workers] == [report.rescheduled[0].worker], report.lost_workers
    [lost], repeated = report.lost_workers, report.finished[2]
    assert (repeated.attempts, repeated.worker != lost.name) == (2, True)
    assert f"lost worker {lost.name}" in str(report)


def test_when_the_scheduler_goes_away_what_is_finished_is_kept_and_a_rerun_continues(tmp_path):
    path = tmp_path / "sweep.jsonl"
    with dask_cluster(tmp_path) as cluster:
        cluster.start_worker("only")
        scheduler = cluster.scheduler.pid

        def kills_the_scheduler(x):
            if x.size == 30 and os.path.exists(f"/proc/{scheduler}/fd/0"):
                os.kill(scheduler, signal.SIGKILL)
                time.sleep(60)

        functions = {"add": (kills_the_scheduler, numbers)}
        with connect(cluster, 1) as client:
            with pytest.raises(
                fleet.FleetLostError, match=r"scheduler went away.* 2 of 4 points were finished"
            ) as lost:
                fleet.sweep(client, functions, [10, 20, 30, 40], path=path, **QUICK)
            assert repr(str(path)) in str(lost.value)
    again = tmp_path / "again"
    again.mkdir()
    with dask_cluster(again) as cluster:
        cluster.start_worker("only")
        with connect(cluster, 1) as client:
            report = fleet.sweep(client, functions, [10, 20, 30, 40], path=path, **QUICK)
    assert (len(report.finished), report.continued, report.failed) == (4, 2, ())


def test_a_task_that_runs_out_of_memory_is_named_and_the_others_are_finished(tmp_path):
    def make_arrays(n):
        if n == 20:
            hoard = []
            while True:  # until the nanny looks, every 0.1 s
                hoard.append(np.ones(2 << 20))
                time.sleep(0.01)
        return numbers(n)

    with dask_cluster(tmp_path) as cluster:
        cluster.start_worker("small", "--nanny", "--memory-limit", "500MB")
        with connect(cluster, 1) as client:
            functions = {"negative": (np.negative, make_arrays)}
            report = fleet.sweep(client, functions, [10, 20, 30], attempts=2, **QUICK)
    assert [point.size for point in report.finished] == [10, 30]
    [failure] = report.failed
    assert (failure.size, failure.reason.partition(":")[0]) == (20, "out of memory")
    assert failure.reason.endswith("2 times")
    assert len(report.lost_workers) == 2
    assert all(lost.reason.startswith("out of memory") for lost in report.lost_workers)


def test_memory_that_python_is_refused_and_then_all_workers_gone_for_good(tmp_path):
    def kills_its_worker(x):
        os.kill(os.getpid(), signal.SIGKILL)

    with dask_cluster(tmp_path) as cluster:
        cluster.start_worker("only")
        with connect(cluster, 1) as client:
            report = fleet.sweep(client, {"negative": (np.negative, numbers)}, [10, 1 << 50], **QUICK)
            with pytest.raises(
                fleet.FleetLostError, match=r"no worker is left.*0 of 1 points .* lost, for there is no"
            ):
                fleet.sweep(client, {"kill": (kills_its_worker, numbers)}, [10], patience_seconds=1.0, **QUICK)
    assert [failure.reason.partition(":")[0] for failure in report.failed] == ["out of memory"]
    assert (len(report.finished), report.lost_workers) == (1, ())


@pytest.fixture(scope="module")
def other_numpy(tmp_path_factory):
    """Return a folder with another version of NumPy, and that version."""
    other = "2.3.5" if version("numpy") != "2.3.5" else "2.4.6"
    folder = tmp_path_factory.mktemp("numpy")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", "--retries", "0"]
    try:
        subprocess.run([*command, "--target", folder, f"numpy=={other}"], check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"pip cannot install numpy {other} here: {error}")
    return folder, other


def test_a_worker_with_another_numpy_is_named_and_still_works(tmp_path, other_numpy):
    folder, other = other_numpy
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    with dask_cluster(tmp_path) as cluster:
        for number in (1, 2):
            cluster.start_worker(f"usual {number}", host=f"127.0.0.{number}")
        cluster.start_worker("other", host="127.0.0.3", environment={"PYTHONPATH": path})
        with connect(cluster, 3) as client:
            measured = fleet.calibrate(client, plan=small_plan(), network=False, progress=False)
            report = fleet.sweep(client, {"add": (np.negative, numbers)}, range(10, 16), **QUICK)
    assert measured.worker("other").machine.numpy_version == other
    mixed = [(found.worker, found.detail) for found in fleet.outliers(measured) if found.what == "mixed versions"]
    assert mixed == [("other", f"numpy {other}, most have {version('numpy')}")]
    assert {point.worker for point in report.finished} == {"usual 1", "usual 2", "other"}
    assert report.failed == ()


def slowed(pid: int, stop: threading.Event) -> None:
    """Let a process run for a third of the time."""
    while not stop.is_set():
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.02)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)


def test_a_host_that_is_three_times_slower_is_named(tmp_path):
    with dask_cluster(tmp_path) as cluster:
        cluster.start_worker("usual", host="127.0.0.1")
        slow = cluster.start_worker("slow", host="127.0.0.2")
        with connect(cluster, 2) as client:
            stop = threading.Event()
            thread = threading.Thread(target=slowed, args=(slow.pid, stop))
            thread.start()
            try:
                # Other work on this computer may slow the usual worker as much, for a moment.
                for _ in range(3):
                    measured = fleet.calibrate(client, plan=small_plan(), network=False, progress=False)
                    named = {found.worker for found in fleet.outliers(measured) if found.what == "throttled"}
                    if named == {"slow"}:
                        break
            finally:
                stop.set()
                thread.join()
    assert named == {"slow"}
    assert "throttled" in str(measured)
