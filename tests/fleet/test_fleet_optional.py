"""Without Dask, accel works as before, and what needs it says in one line how to install it."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

BLOCKED = "import sys; sys.modules['dask'] = sys.modules['distributed'] = None; "


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_accel_does_not_import_dask():
    done = run("import sys, accel; accel.fleet.Fleet; accel.plot; print({'dask', 'distributed'} & set(sys.modules))")
    assert (done.stdout.strip(), done.returncode) == ("set()", 0), done.stderr


def test_without_dask_one_line_says_how_to_install_it():
    done = run(BLOCKED + "from accel import fleet\nwith fleet.local(): pass")
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: accel.fleet needs Dask, which is not installed. Install it: pip install 'accel[fleet]'"
    )


def test_every_verb_says_so():
    calls = ["calibrate(None)", "sweep(None, {}, [])", "measure_network(None)", "measure_scheduler(None)"]
    for call in calls:
        assert "pip install 'accel[fleet]'" in run(f"{BLOCKED} from accel import fleet; fleet.{call}").stderr


def test_the_command_says_so_in_one_line():
    done = run(BLOCKED + "from accel.__main__ import main; main(['fleet'])")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'accel[fleet]'" in done.stderr


def test_saved_fleets_can_be_read_without_dask(tmp_path):
    code = (
        f"from pathlib import Path; sys.path += {[str(TESTS), str(TESTS / 'fleet')]!r}\n"
        "from fleets import fleet_of, worker\n"
        f"path = fleet_of(worker('a')).save({str(tmp_path / 'f.json')!r})\n"
        "from accel.fleet import Fleet; print(Fleet.load(path).table())"
    )
    done = run(BLOCKED + code)
    assert "1 worker on 1 host" in done.stdout, done.stderr
