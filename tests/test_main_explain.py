import json
import os
import subprocess
import sys

import numpy as np
import pytest
from explaining import here
from machines import CALIBRATED

from accel import calibration, storage
from accel.__main__ import main
from accel.command import CommandError, find_function, parse_array, parse_value, prepared
from accel.explanation import Explanation

SOURCE = """
import numpy as np

def gelu(x, alpha=0.79, *, power=3):
    return 0.5 * x * (1 + np.tanh(alpha * (x + 0.044715 * x**power)))

def fails(x):
    raise KeyError("mine")

def no_arrays():
    return np.arange(10) * 2

def seconds(seconds, machine):
    return seconds * machine

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder with a module in it, and a computer that is calibrated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(calibration, "this_machine", here)
    (tmp_path / "shapely_module.py").write_text(SOURCE, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("shapely_module", None)


@pytest.fixture
def explain(folder, capsys):
    """Run the command in this process: its status, standard output and standard error."""

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as left:
            main(("explain", *arguments, "--seconds", "0.01"))
        return left.value.code, *capsys.readouterr()

    return run


def test_a_table_of_a_function_in_the_current_folder(explain):
    status, out, err = explain("shapely_module:gelu", "--array", "x=20,30:float32")
    assert (status, err) == (0, "")
    assert "gelu(x: float32[20, 30])" in out
    assert "tanh(t" in out
    assert max(map(len, out.splitlines())) <= 100


def test_json_of_a_function_in_a_file(explain, folder):
    status, out, _ = explain(
        str(folder / "shapely_module.py") + ":gelu", "--array", "x=50:float64", "--arg", "power=2", "--json"
    )
    found = Explanation.from_json(out)
    assert status == 0
    assert found.calls[1].name == "square"
    assert found.measured is not None
    assert json.loads(out)["function"] == "gelu"


def test_shapes_only_and_another_machine_run_nothing(explain, folder):
    size = "x=1000000,1000000:float32"
    status, out, _ = explain("shapely_module:gelu", "--array", size, "--shapes-only", "--json")
    assert status == 0
    assert Explanation.from_json(out).cost.special == 2 * 10**12
    path = storage.save(CALIBRATED, folder / "server.json")
    status, out, _ = explain("shapely_module:gelu", "--array", "x=9:float32", "--machine", str(path), "--threads", "4")
    assert status == 0
    assert "Some CPU @ 3.00GHz, 4 threads" in out
    assert "measured  bound" not in out


def test_arguments_whose_names_are_options_of_explain(explain):
    status, out, _ = explain("shapely_module:seconds", "--array", "seconds=5", "--array", "machine=5")
    assert status == 0
    assert "multiply(seconds, machine)" in out


def test_no_arrays_and_positional_only_arguments(explain):
    assert explain("shapely_module:no_arrays")[0] == 0
    assert "add(x1, x2)" in explain("numpy:add", "--array", "x1=5", "--array", "x2=5")[1]


def test_the_exception_of_the_function_is_its_own(folder):
    with pytest.raises(KeyError, match="mine"):
        main(("explain", "shapely_module:fails", "--array", "x=3"))


def test_the_process_shows_the_traceback_with_status_1(folder, monkeypatch):
    path = storage.save(CALIBRATED, folder / "server.json")
    done = subprocess.run(
        [sys.executable, "-m", "accel", "explain", "shapely_module:fails", "--array", "x=3", "--machine", str(path)],
        capture_output=True, text=True, timeout=120, cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.rstrip().endswith("KeyError: 'mine'")
    assert "in fails" in done.stderr


WRONG_CALLS = [
    (["shapely_module"], "module:function"),
    (["shapely_module:"], "module:function"),
    (["missing_module:f"], "no module 'missing_module'"),
    (["missing.py:f"], "no file missing.py"),
    (["shapely_module:missing"], "no function 'missing'"),
    (["shapely_module:number"], "int, which is not a function"),
    (["shapely_module:gelu"], "missing a required argument: 'x'"),
    (["shapely_module:gelu", "--array", "y=3"], "cannot be called with y"),
    (["shapely_module:gelu", "--array", "x=3", "--array", "x=4"], "every argument has one value"),
    (["shapely_module:gelu", "--array", "x=3", "--arg", "x=4"], "every argument has one value"),
    (["shapely_module:gelu", "--array", "x=3:float31"], "name=shape:dtype"),
    (["shapely_module:gelu", "--array", "x=3:object"], "numeric dtype"),
    (["shapely_module:gelu", "--array", "x=-3"], "name=shape:dtype"),
    (["shapely_module:gelu", "--array", "x"], "name=shape:dtype"),
    (["shapely_module:gelu", "--array", "x=1000000,1000000,1000"], "--shapes-only does without it"),
    (["shapely_module:gelu", "--array", "x=3", "--arg", "alpha=open('f')"], "name=literal"),
    (["shapely_module:gelu", "--array", "x=3", "--machine", "missing.json"], "missing.json"),
    (["shapely_module:gelu", "--array", "x=3", "--threads", "0"], "--threads"),
    ([], "FUNCTION"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_CALLS)
def test_a_wrong_call_is_one_line_and_status_2(explain, arguments, message):
    status, out, err = explain(*arguments)
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert message.lower() in err.lower()


def test_the_same_numbers_every_time(folder):
    def arrays():
        words = ["a=2,3:float32", "b=4:int16", "c=5:bool", "d=3:complex64", "e=:float16"]
        (folder / "five.py").write_text("def five(a, b, c, d, e): pass", encoding="utf-8")
        call = prepared("five.py:five", words, [], threads=1, machine_file=None, shapes_only=False)
        return call.arguments

    first, second = arrays(), arrays()
    assert [str(array.dtype) for array in first] == ["float32", "int16", "bool", "complex64", "float16"]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert first[4].shape == ()


def test_an_import_error_within_the_module_is_its_own(folder):
    (folder / "broken_module.py").write_text("import not_there_at_all", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        find_function("broken_module:f")


def test_words_are_parsed():
    assert parse_array("x=3,4") == ("x", ((3, 4), np.dtype("float64")))
    assert parse_array("s=:int8") == ("s", ((), np.dtype("int8")))
    assert parse_value("k=None") == ("k", None)
    with pytest.raises(CommandError):
        parse_value("k")
