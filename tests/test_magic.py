import numpy as np
import pytest
from explaining import here
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from accel import calibration, magic
from accel.explanation import Explanation


@pytest.fixture
def shell(monkeypatch):
    """Return a fresh IPython that knows ``%%explain``, as after ``%load_ext accel``."""
    monkeypatch.setattr(calibration, "this_machine", here)
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "accel")
    shell.user_ns.update(np=np, x=np.ones(100, np.float32), n=3)
    return shell


def run(shell: InteractiveShell, cell: str) -> Explanation:
    with capture_output():
        done = shell.run_cell(f"%%explain --seconds 0.01\n{cell}")
    done.raise_error()
    return done.result


def test_a_cell_is_explained_as_a_function_of_the_arrays_it_reads(shell):
    found = run(shell, "y = np.tanh(x) * n\nz = y.sum()")
    assert found.signature == "cell(x: float32[100])"
    assert [call.name for call in found.calls[:3]] == ["tanh", "multiply", "add.reduce"]
    assert [call.line for call in found.calls[:3]] == [1, 1, 2]


def test_what_a_cell_assigns_stays(shell):
    run(shell, "import math\ny = x * 2\nn += 1\ndef twice(a):\n    return 2 * a\nz = twice(x)")
    assert shell.user_ns["y"].tolist() == [2.0] * 100
    assert type(shell.user_ns["y"]) is np.ndarray
    assert shell.user_ns["n"] == 4
    assert shell.user_ns["z"].sum() == 200
    assert shell.user_ns["math"].pi > 3


def test_a_change_in_place_happens_once(shell):
    found = run(shell, "x += 1\nx[:5] *= 10")
    assert shell.user_ns["x"].tolist() == [20.0] * 5 + [2.0] * 95
    assert any("It changes x" in note for note in found.notes)


def test_the_exception_of_a_cell_is_its_own(shell):
    with pytest.raises(ZeroDivisionError):
        run(shell, "y = x + 1\n1 / 0")
    assert "y" not in shell.user_ns


def test_line_magics_and_an_empty_cell(shell):
    assert run(shell, "%pwd\ny = x + 1").calls[0].name in ("add", "opaque")
    assert [call.name for call in run(shell, "\n").calls] == ["opaque"]


def test_wrong_options_and_wrong_code(shell):
    for line in ("--bogus 1", "--threads", "--threads many", "3"):
        with pytest.raises(UsageError, match=r"%%explain \[--threads N\]"):
            magic.explain_cell(shell, line, "y = x")
    with pytest.raises(SyntaxError):
        run(shell, "y = = x")


def test_the_function_of_a_cell_leaves_the_namespace_alone():
    namespace = {"np": np, "x": np.ones(3), "total": 5.0, "unused": np.ones(9)}
    function, arguments = magic.function_of("total = total + x.sum()\nfor i in range(2): x = x * i", namespace)
    assert sorted(arguments) == ["total", "x"]
    function(*arguments.values())
    assert namespace["total"] == 5.0
    assert namespace["x"].tolist() == [1, 1, 1]
