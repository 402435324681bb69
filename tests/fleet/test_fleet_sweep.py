"""A fleet on this computer: two worker processes under one scheduler, without faults."""

import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pytest
from dask_processes import small_plan

distributed = pytest.importorskip("distributed", reason="needs pip install 'accel[fleet]'")

from accel import fleet  # noqa: E402
from accel.__main__ import main  # noqa: E402

QUICK = {"seconds": 0.01, "progress": False}


def ones(n):
    return [np.ones(n)]


@pytest.fixture(scope="module")
def client():
    before = set(psutil.Process().children(recursive=True))
    folders = set(Path(tempfile.gettempdir()).glob("accel-fleet-*"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fleet.local(2) as client:
            yield client
    left = [child for child in psutil.Process().children(recursive=True) if child not in before]
    assert set(Path(tempfile.gettempdir()).glob("accel-fleet-*")) <= folders
    assert [child for child in left if "spawn_main" in " ".join(child.cmdline())] == []


def test_a_sweep_measures_every_function_at_every_size(client, capsys):
    functions = {"negative": (np.negative, ones), "sqrt": (np.sqrt, ones)}
    report = fleet.sweep(client, functions, [10, 1000, 10], seconds=0.01)
    assert [(p.name, p.size) for p in report.finished] == [
        ("negative", 10), ("negative", 1000), ("sqrt", 10), ("sqrt", 1000),
    ]  # fmt: skip
    assert {p.worker for p in report.finished} == {"0", "1"}
    assert all(0 < p.seconds < 1 for p in report.finished)
    assert (report.failed, report.lost_workers, report.rescheduled, report.continued) == ((), (), (), 0)
    assert "sweeping" in capsys.readouterr().err
    assert fleet.SweepReport.from_json(report.to_json()) == report
    assert "<table" in report._repr_html_()
    with pytest.raises(KeyError, match="'exp'"):
        report.named("exp")


def test_measurements_on_one_host_never_overlap(client, tmp_path):
    def make_arrays(n):
        return [n]

    def alone(n):
        with open(tmp_path / "busy", "x"):  # fails where another measurement has it
            sum(range(10_000))
        os.unlink(tmp_path / "busy")

    report = fleet.sweep(client, {"alone": (alone, make_arrays)}, range(6), **QUICK)
    assert (len(report.finished), report.failed) == (6, ())
    assert {point.worker for point in report.finished} == {"0", "1"}


def test_a_rerun_measures_what_is_missing_only(client, tmp_path):
    path, log = tmp_path / "sweep.jsonl", tmp_path / "log"

    def logged(n):
        with open(log, "a") as file:
            file.write(f"{n}\n")
        return ones(n)

    functions = {"negative": (np.negative, logged)}
    fleet.sweep(client, functions, [1, 2], path=path, **QUICK)
    report = fleet.sweep(client, functions, [1, 2, 3], path=str(path), **QUICK)
    assert ([point.size for point in report.finished], report.continued) == ([1, 2, 3], 2)
    assert sorted(log.read_text().split()) == ["1", "2", "3"]
    with pytest.raises(fleet.SweepFileError, match="'negative' changed"):
        fleet.sweep(client, {"negative": (np.negative, lambda n: [np.zeros(n)])}, [1], path=path, **QUICK)


def test_an_exception_is_reported_and_the_others_are_finished(client, tmp_path):
    def picky(x):
        if x.size == 2:
            raise TimeoutError("two is too few")  # as Dask itself raises for a lost worker

    path = tmp_path / "sweep.jsonl"
    report = fleet.sweep(client, {"picky": (picky, ones)}, [1, 2, 3], path=path, **QUICK)
    assert [point.size for point in report.finished] == [1, 3]
    [failure] = report.failed
    assert (failure.size, failure.reason) == (2, "TimeoutError: two is too few")
    assert "TimeoutError: two is too few" in str(report)
    again = fleet.sweep(client, {"picky": (picky, ones)}, [1, 2, 3], path=path, **QUICK)
    assert (again.continued, len(again.failed)) == (2, 1)  # what failed is tried again


@pytest.mark.parametrize(
    ("functions", "sizes", "error"),
    [
        ({}, [1], TypeError),
        ({"f": np.sqrt}, [1], TypeError),
        ({"f": (np.sqrt, 3)}, [1], TypeError),
        ({1: (np.sqrt, ones)}, [1], TypeError),
        ({"f": (np.sqrt, ones)}, [], ValueError),
        ({"f": (np.sqrt, ones)}, [1.5], TypeError),
    ],
)
def test_what_is_no_sweep_is_refused(client, functions, sizes, error):
    with pytest.raises(error):
        fleet.sweep(client, functions, sizes)


def test_the_network_is_measured_through_transfers_of_results(client):
    network = fleet.measure_network(client, sizes_bytes=[8, 1 << 16, 1 << 24])
    assert {(link.source, link.target) for link in network.links} == {("0", "1"), ("1", "0")}
    assert network.same_host
    assert 0 < network.latency_seconds < 1
    assert network.seconds[2] > network.seconds[0]
    assert 1e7 < network.bandwidth_bytes_per_second < 1e12


def test_the_scheduler_takes_time_for_each_task(client):
    assert 1e-6 < fleet.measure_scheduler(client, tasks=50, repeats=1) < 1


def test_a_fleet_is_calibrated_saved_and_loaded(client, tmp_path):
    measured = fleet.calibrate(client, plan=small_plan(), progress=False)
    assert [worker.name for worker in measured.workers] == ["0", "1"]
    assert measured.hosts == ("127.0.0.1",)
    assert measured.unmeasured == ()
    for worker in measured.workers:
        assert worker.machine.is_calibrated
        assert worker.versions["numpy"] == np.__version__
        assert 0 < worker.cpu_share_fraction < 1.2
    assert measured.network.same_host
    assert fleet.Fleet.load(measured.save(tmp_path / "fleet.json")) == measured
    assert "2 workers on 1 host" in str(measured)


def test_a_network_needs_two_processes():
    with (
        distributed.LocalCluster(n_workers=2, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(ValueError, match="two processes"),
    ):
        fleet.measure_network(client)


@pytest.mark.skipif(sys.platform == "win32", reason="waits for the system's own timeout")
def test_the_command_names_a_scheduler_that_does_not_answer(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "--scheduler", "not-an-address://"])
    assert ended.value.code == 1
    assert "no scheduler answers at 'not-an-address://'" in capsys.readouterr().err


def test_the_command_prints_and_saves(client, tmp_path, capsys):
    client.cluster.scale(1)
    while len(client.nthreads()) > 1:
        time.sleep(0.05)
    path = tmp_path / "fleet.json"
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "--scheduler", client.scheduler.address, "--output", str(path)])
    assert not ended.value.code
    printed = capsys.readouterr()
    assert "1 worker on 1 host" in printed.out
    assert "No network was measured" in printed.out
    assert "calibrating" in printed.err
    assert len(fleet.Fleet.load(path).workers) == 1


def test_everything_listens_on_this_computer_only(client):
    own = psutil.Process()
    sockets = [s for process in (own, *own.children(recursive=True)) for s in process.net_connections("tcp")]
    listening = {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}
    assert listening <= {"127.0.0.1", "::1"}
    assert listening
