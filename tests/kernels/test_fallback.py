"""Without a compiler every kernel runs, on NumPy, after one notice."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from samples import arguments_of, name_of

from accel.kernels import KERNELS, fallback

HERE = Path(__file__).parent

# Each stands for a machine on which Numba cannot compile: what runs first, the environment, and what the notice says.
OBSTACLES = {
    "missing": ("sys.modules['numba'] = None", {}, "Numba cannot be imported", "pip install numba"),
    "broken": (
        "sys.meta_path.insert(0, Broken())",
        {},
        "importing Numba fails (OSError: libLLVM is missing)",
        "Install it again",
    ),
    "off": ("", {"NUMBA_DISABLE_JIT": "1"}, "NUMBA_DISABLE_JIT switches Numba off", "Unset it"),
}

PROGRAM = """
import sys, warnings
import numpy as np

class Broken:
    def find_spec(self, name, path, target=None):
        if name == "numba":
            raise OSError("libLLVM is missing")

{obstacle}
sys.path.insert(0, {here!r})
with warnings.catch_warnings(record=True) as notices:
    warnings.simplefilter("always")
    from accel.kernels import KERNELS
    from accel.kernels.fallback import CompilerMissingWarning, compiled
    from samples import arguments_of, name_of
    results = {{name_of(kernel): kernel(*arguments_of(kernel)) for kernel in KERNELS}}
    assert compiled("any") is None  # asked for by now, whatever the kernels are
np.savez({file!r}, **results)
for notice in notices:
    print(notice.category.__name__, notice.filename, notice.message, sep="|")
print("compiled" if "accel.kernels.compiled" in sys.modules else "not compiled")
"""


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_every_kernel_gives_the_same_without_a_compiler_after_one_notice(obstacle, tmp_path):
    statement, environment, reason, fix = OBSTACLES[obstacle]
    file = tmp_path / "results.npz"
    program = PROGRAM.format(obstacle=statement, here=str(HERE), file=str(file))
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    notice, compiled = done.stdout.strip().split("\n")
    assert notice.startswith("CompilerMissingWarning|<string>|compiled kernels run as their best NumPy forms, because ")
    assert reason in notice
    assert fix in notice
    assert compiled == "not compiled"
    assert not done.stderr
    found = np.load(file)
    assert set(found) == {name_of(kernel) for kernel in KERNELS}
    for kernel in KERNELS:
        np.testing.assert_allclose(found[name_of(kernel)], kernel(*arguments_of(kernel)), rtol=1e-4, atol=1e-5)


def test_importing_the_kernels_loads_nothing_heavy():
    program = (
        "import sys, accel; from accel.kernels import KERNELS;"
        "print(sorted({'numba', 'llvmlite', 'matplotlib', 'msgspec', 'rich', 'scipy', 'tqdm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.speed
def test_importing_accel_takes_little_more_than_numpy():
    program = (
        "import time; a = time.perf_counter(); import numpy; b = time.perf_counter();"
        "import accel, accel.kernels; print(b - a, time.perf_counter() - b)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(5)
    ]
    assert min(float(own) for _, own in runs) < 2 * min(float(numpy) for numpy, _ in runs)


def test_where_there_is_a_compiler_modules_are_found_without_a_word():
    pytest.importorskip("numba")
    fallback._compiler_works.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
            fallback.compiled("nothing_of_this_name")


def test_the_notice_names_the_line_of_the_caller(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    fallback._compiler_works.cache_clear()
    try:
        with pytest.warns(fallback.CompilerMissingWarning, match="pip install numba") as caught:
            assert fallback.compiled("any") is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert fallback.compiled("any") is None
    finally:
        fallback._compiler_works.cache_clear()
    assert [notice.filename for notice in caught] == [__file__]
