import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from accel import calibration, hardware, storage
from accel.__main__ import main
from accel.doctor import Checkup
from tests.machines import CALIBRATION


@pytest.fixture(autouse=True)
def cache_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    # Colors that the surroundings ask for would be in the output.
    for name in ("FORCE_COLOR", "PY_COLORS", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


def process(*arguments: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [sys.executable, "-m", "accel", *arguments],
        capture_output=True, text=True, encoding=encoding, env=environment, timeout=120,
    )  # fmt: skip


@pytest.fixture
def accel(capsys):
    """Run the command in this process: its status, standard output and standard error."""

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        return left.value.code, *capsys.readouterr()

    return run


def test_doctor_prints_everything_within_100_columns():
    done = process("doctor", "--no-color")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    for part in ("Hardware", "Libraries", "Data caches", "Findings", "not calibrated", hardware.detect().cpu_name):
        assert part in done.stdout


def test_doctor_shows_a_kept_calibration(accel):
    storage.save(hardware.detect().with_calibration(CALIBRATION))
    status, out, _ = accel("doctor")
    assert status == 0
    assert "Measured roofs" in out
    assert CALIBRATION.taken_at in out


def test_strict_makes_warnings_fail(accel):
    assert accel("doctor", "--strict")[0] == 1  # not calibrated, for one


def test_doctor_as_json(accel):
    status, out, _ = accel("doctor", "--json")
    assert status == 0
    checkup = Checkup.from_json(out)
    assert checkup.machine == hardware.detect()
    assert "not calibrated" in [warning.title for warning in checkup.warnings]


def test_machine_prints_the_path_alone(accel):
    status, out, err = accel("machine")
    path = storage.path_for(hardware.detect())
    assert (status, out.strip()) == (0, str(path))
    assert "nothing is kept there yet" in err
    storage.save(hardware.detect().with_calibration(CALIBRATION))
    assert accel("machine") == (0, out, "")
    path.write_text("not a machine")
    assert "cut short or damaged" in accel("machine")[2]


def test_calibrate_quickly_to_a_file(tmp_path):
    output = tmp_path / "here.json"
    done = process("calibrate", "--quick", "--json", "--output", str(output))
    assert done.returncode == 0, done.stderr
    machine = storage.load(output)
    assert machine.roofs.quick
    assert json.loads(done.stdout) == json.loads(machine.to_json())
    assert not storage.path_for(machine).exists()


def test_calibrate_says_where_and_keeps_a_full_one_from_a_quick_one(accel, monkeypatch):
    # What was measured does not matter here, only what becomes of it.
    def recorded(*, quick, save):
        assert not save
        return hardware.detect().with_calibration(replace(CALIBRATION, quick=quick))

    monkeypatch.setattr(calibration, "calibrate", recorded)
    path = storage.path_for(hardware.detect())
    assert accel("calibrate", "--quick")[:2] == (0, f"saved to {path}\n")
    assert accel("calibrate")[:2] == (0, f"saved to {path}\n")
    assert accel("calibrate", "--quick")[:2] == (0, f"the full calibration in {path} is better, and stays\n")
    assert storage.load(path).calibration == CALIBRATION


WRONG_CALLS = [
    (["doctor", "--bogus"], "--bogus"),
    (["bogus"], "bogus"),
    (["calibrate", "--output"], "--output"),
    (["calibrate", "--output", "missing/folder/machine.json"], "name a file in a folder that exists"),
    (["calibrate", "--output", "."], "name a file in a folder that exists"),
    (["machine", "surplus"], "surplus"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_CALLS)
def test_a_wrong_call_is_one_line_and_status_2(accel, arguments, message):
    status, out, err = accel(*arguments)
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("accel: ")
    assert message in err


def test_a_wrong_call_of_the_process():
    done = process("doctor", "--bogus")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [("doctor",), ("doctor", "--json"), ("machine",), ("--help",), ("doctor", "-h"), ("bogus µ",)]
)
def test_every_command_writes_to_a_terminal_of_any_encoding(arguments):
    calibrated = hardware.detect().with_calibration(CALIBRATION)
    storage.save(calibrated)  # its overheads are given in µs
    done = process(*arguments, encoding="ascii")
    assert done.returncode == (2 if "bogus µ" in arguments else 0)
    assert "Traceback" not in done.stderr
    if "--json" in arguments:
        # Not how many threads BLAS may use: a test before this one may have a limit in force.
        found = Checkup.from_json(done.stdout).machine
        assert replace(found, blas=calibrated.blas) == calibrated


@pytest.fixture
def recorded(monkeypatch):
    """Calibrate at once, and count how often."""
    calls = []

    def calibrate(*, quick, save):
        calls.append(quick)
        return hardware.detect().with_calibration(CALIBRATION)

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    return calls


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_nothing_but_a_regular_file_is_replaced(accel, recorded, tmp_path):
    pipe, link, loop = tmp_path / "pipe", tmp_path / "link", tmp_path / "loop"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    loop.symlink_to(loop)
    for output, kind in ((pipe, "a pipe"), (link, "a pipe"), (loop, "a link to itself")):
        status, out, err = accel("calibrate", "--output", str(output))
        assert (status, out, len(err.strip().splitlines())) == (2, "", 1)
        assert f"it is {kind}, and only a regular file is ever replaced" in err
        with pytest.raises(OSError, match=kind):
            storage.save(hardware.detect(), output)
    assert recorded == []  # refused before any time is spent
    assert pipe.is_fifo()
    assert link.readlink() == pipe
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["link", "loop", "pipe"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_target_is_written(accel, recorded, tmp_path, exists):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    target, link = folder / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    if exists:
        target.write_text("before")
    assert accel("calibrate", "--output", str(link))[0] == 0
    assert link.is_symlink()
    assert not target.is_symlink()
    assert storage.load(target).calibration == CALIBRATION


def test_the_version(accel):
    import accel as package

    assert accel("--version") == (0, f"accel {package.__version__}\n", "")


def test_help_lists_the_commands(accel):
    for arguments in ((), ("--help",), ("-h",)):
        status, out, _ = accel(*arguments)
        assert status == 0
        for command in ("doctor", "calibrate", "machine", "explain"):
            assert command in out
