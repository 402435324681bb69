"""The table of `make bench`: its arithmetic, its verdicts, and which benchmarks run."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from machines import CALIBRATED, LAPTOP

from accel import storage
from accel.cost import Cost
from accel.measurement import Measurement

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import kernels  # noqa: E402
import peers  # noqa: E402
import prediction  # noqa: E402
from cases import Case, Target  # noqa: E402
from verdicts import FORM, Row, closest_roof, row_of  # noqa: E402

MB = 2**20


def steady(seconds):
    return Measurement("f", (seconds,) * 9, 1, 1.2)


CASE = Case(
    family="family",
    form="family.form",
    size="float32[1M]",
    run=lambda: None,
    cost=Cost(flops=1_000_000),
    error=lambda: 0.0,
    working_set_bytes=8 * MB,
    compulsory_bytes=8 * MB,
)


def judged(case=CASE, own=1e-3, others=None, slowdown=1.0, compiled=0.0):
    measured = {FORM: steady(own)} | {name: steady(seconds) for name, seconds in (others or {}).items()}
    return row_of(case, CALIBRATED, measured, peak_bytes=0, error=0.0, compile_seconds=compiled, slowdown=slowdown)


@pytest.mark.parametrize(
    ("own", "torch", "verdict"),
    [(9 * MB, 8 * MB, "MISSED memory 9 MB, torch 8 MB"), (8 * MB, 8 * MB, "met"), (8 * MB + 4096, 8 * MB, "met")],
)
def test_more_memory_than_torch_is_a_miss(own, torch, verdict):
    case = replace(CASE, targets=(Target(1.0, "torch"),), peers={"torch": lambda: None})
    measured = {FORM: steady(1e-3), "torch": steady(2e-3)}
    found = {FORM: own, "torch": torch}
    row = row_of(case, CALIBRATED, measured, peak_bytes=0, error=0, compile_seconds=0, slowdown=1, resident_bytes=found)
    assert row.verdict == verdict


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux keeps and forgets peaks")
def test_resident_memory_counts_temporaries_and_results_made_or_given():
    code = (
        "import numpy as np; from resident import peak_bytes\n"
        "x, y = np.ones(4 << 20), np.ones(4 << 20)\n"
        "calls = (lambda: np.ones(4 << 20), lambda: np.add(x, x, out=y), lambda: np.ones(2 << 20)[:1].copy())\n"
        "print([round(peak_bytes(call) / 2**20) for call in calls])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "benchmarks"), "MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    made, given, temporary = json.loads(run.stdout)
    assert made == pytest.approx(32, abs=1)
    assert given == pytest.approx(32, abs=1)
    assert temporary == pytest.approx(16, abs=1)


def test_the_memory_roof_is_the_best_stream_at_the_working_set():
    roof, fraction = closest_roof(CASE, CALIBRATED, 1e-3)  # 8 MB lie between 1 MB (90 GB/s loads) and 128 MB
    assert roof == "L3"
    assert fraction == pytest.approx(8 * MB / 1e-3 / 9.0e10)


def test_the_compute_roof_is_taken_where_its_share_is_larger():
    roof, fraction = closest_roof(replace(CASE, cost=Cost(flops=80_000_000)), CALIBRATED, 1e-3)
    assert (roof, fraction) == ("compute", pytest.approx(0.8))
    wide = replace(CASE, cost=Cost(flops=40_000_000), size="float64 1024 x 1024")
    assert closest_roof(wide, CALIBRATED, 1e-3) == ("compute", pytest.approx(0.8))


def test_roofs_are_those_of_the_threads_of_the_case():
    _, fraction = closest_roof(replace(CASE, threads=4), CALIBRATED, 1e-3)
    assert fraction == pytest.approx(8 * MB / 1e-3 / 3.0e11)
    assert closest_roof(replace(CASE, threads=3), CALIBRATED, 1e-3) == ("", 0.0)


def test_a_size_must_begin_with_its_dtype():
    with pytest.raises(ValueError, match=r"begins with its dtype, as in 'float32\[10M\]'; family.form has '1M'"):
        closest_roof(replace(CASE, size="1M"), CALIBRATED, 1e-3)


@pytest.mark.parametrize(
    ("targets", "others", "verdict"),
    [
        ((), {}, ""),
        ((), {"torch": 2e-3}, ""),
        ((Target(0.65, "torch"),), {"torch": 2e-3}, "met"),
        ((Target(0.25, "torch"),), {"torch": 2e-3}, "MISSED 0.50 of torch, target 0.25"),
        ((Target(0.09, "roof"),), {}, "met"),
        ((Target(0.8, "roof"),), {}, "MISSED 9% of the roof, target 80%"),
        (
            (Target(0.25, "torch"), Target(0.8, "roof")),
            {"torch": 1e-3},
            "MISSED 1.00 of torch, target 0.25; 9% of the roof, target 80%",
        ),
        ((Target(0.25, "torch"),), {}, "not judged: no torch to compare with"),
        ((Target(0.25, "torch"), Target(0.05, "roof")), {}, "met; not judged: no torch to compare with"),
    ],
)
def test_a_row_says_whether_its_targets_are_met(targets, others, verdict):
    row = judged(replace(CASE, targets=targets), others=others)
    assert row.verdict == verdict
    assert row.missed == verdict.startswith("MISSED")
    assert row.ratios == {name: 1e-3 / seconds for name, seconds in others.items()}


def test_a_roof_that_was_not_measured_judges_nothing():
    row = judged(replace(CASE, threads=3, targets=(Target(0.8, "roof"),)))
    assert (row.verdict, row.missed) == ("not judged: no roof to compare with", False)


def test_a_row_says_what_makes_it_doubtful():
    assert judged(compiled=2.5).verdict == "MISSED compiled for 2.5 s, target 2 s"
    assert judged(compiled=1.5).verdict == ""
    assert judged(own=5e-5).verdict == "above the roof: a count or the calibration is wrong"
    assert judged(slowdown=1.5).verdict == "machine 1.5x slower than calibrated: the share is too low"
    row = row_of(
        CASE,
        CALIBRATED,
        {FORM: steady(1e-3), "torch": Measurement("f", (1.0, 2.0, 3.0, 4.0, 5.0), 1, 1.2)},
        peak_bytes=0,
        error=0.0,
        compile_seconds=0.0,
        slowdown=1.0,
    )
    assert row.verdict == "noisy: torch"


def test_the_table_has_a_line_for_each_row_and_counts_the_misses():
    rows = [judged(), judged(replace(CASE, targets=(Target(0.8, "roof"),)), others={"torch": 2e-3}, compiled=0.5)]
    lines = repr(kernels.table_of(rows, "On a machine")).splitlines()
    assert lines[0] == "On a machine"
    head, first = (" ".join(line.split()) for line in lines[1:3])
    assert head == "kernel size threads time time over peer's roof memory resident error compiled verdict"
    assert first == "family.form float32[1M] 1 1 ms – 9% L3 0 B – 0 – –"
    assert "0.50 torch" in lines[3]
    assert "500 ms  MISSED 9% of the roof, target 80%" in lines[3]
    assert lines[4] == "1 of 2 rows miss a target"
    assert Row.from_dict(rows[1].to_dict()) == rows[1]


def test_a_case_is_run_and_its_memory_and_first_compilation_are_seen():
    numba = pytest.importorskip("numba")
    compiled = numba.njit(lambda x: x + 1)
    x = np.ones(1000, np.float32)
    machine = LAPTOP.with_calibration(replace(CALIBRATED.roofs, reference_seconds=1.0))  # slower than any real one
    case = replace(
        CASE, run=lambda: (compiled(1.0), x * 2), error=lambda: 0.25, peers={"other": lambda: time.sleep(1e-3)}
    )
    row = kernels.run_case(case, 0, machine, quick=True, compiled_before=kernels.compilation.seconds())
    assert row.compile_seconds > 0
    assert 4000 <= row.peak_bytes < 20_000
    assert row.error == 0.25
    assert row.ratios["other"] == pytest.approx(row.seconds / 1e-3, rel=0.9)
    again = kernels.run_case(case, 0, machine, quick=True, compiled_before=kernels.compilation.seconds())
    assert again.compile_seconds == 0.0


def test_machine_code_is_kept_apart_for_the_run_and_the_calibration_goes_along(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    storage.save(CALIBRATED)
    with kernels.fresh_code(CALIBRATED):
        assert storage.directory() != tmp_path
        assert storage.load(storage.path_for(CALIBRATED)) == CALIBRATED
        assert [path.suffix for path in storage.directory().iterdir()] == [".json"]
    assert os.environ["ACCEL_CACHE_DIR"] == str(tmp_path)
    monkeypatch.delenv("ACCEL_CACHE_DIR")
    with kernels.fresh_code(LAPTOP):
        pass
    assert "ACCEL_CACHE_DIR" not in os.environ


def test_the_command_prints_one_table_and_writes_the_same_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kernels, "families", lambda: ["this"])
    monkeypatch.setattr(kernels, "versions", lambda: {"torch": "left out: not installed"})
    monkeypatch.setattr(kernels.accel, "this_machine", lambda: CALIBRATED)
    monkeypatch.setattr(kernels, "run_family", lambda *_, **__: iter([judged(), judged()]))
    kernels.main(["--quick", "--family", "this", "--json", str(tmp_path / "rows.json")])
    printed = capsys.readouterr().out
    assert printed.startswith("Some CPU @ 3.00GHz, 4 CPUs, calibrated 2026-01-02 03:04\nNumPy ")
    assert "torch left out: not installed" in printed
    assert printed.count("family.form") == 2
    written = json.loads((tmp_path / "rows.json").read_text())
    assert [Row.from_dict(row) for row in written["rows"]] == [judged(), judged()]
    with pytest.raises(SystemExit):
        kernels.main(["--family", "unheard-of"])
    assert "invalid choice: 'unheard-of' (choose from" in capsys.readouterr().err


def test_every_family_can_be_asked_for_its_cases():
    for name in kernels.families():
        module = importlib.util.find_spec(f"families.{name}")
        assert module is not None
        assert "\ndef cases(quick: bool) -> Iterator[Case]:" in Path(module.origin).read_text()


@pytest.fixture
def build(monkeypatch, tmp_path):
    """Return book/build.py, with commands recorded in `build.ran` and not run; those that name torch fail."""
    spec = importlib.util.spec_from_file_location("build_for_benchmarks", ROOT / "book" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ran = []

    def run(command, **_):
        module.ran.append([str(part) for part in command])
        return type("Done", (), {"returncode": int(module.ran[-1][-1].startswith(module.refused))})

    module.refused = "torch"
    monkeypatch.setattr(module.subprocess, "run", run)
    monkeypatch.setattr(module, "make_environment", lambda purpose: Path("python"))
    monkeypatch.setattr(module, "ENVIRONMENT", tmp_path)
    return module


def test_make_bench_runs_each_benchmark_and_none_of_their_helpers(build):
    build.main(["bench"])
    scripts = [Path(command[1]).name for command in build.ran if command[1].endswith(".py")]
    assert scripts == ["kernels.py", "prediction.py", "advice.py"]
    assert all((ROOT / "benchmarks" / script).exists() for script in scripts)


SCRIPTS = [path for path in sorted((ROOT / "benchmarks").glob("*.py")) if "\ndef main(" in path.read_text("utf-8")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_benchmark_tells_its_options_and_measures_nothing_for_one_it_has_not(script):
    def status(*arguments):
        done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    code, text = status("--help")
    assert (code, text.startswith("usage:")) == (0, True)
    code, text = status("--unheard-of")
    assert code == 2
    assert "--unheard-of" in text or "required" in text


def test_one_benchmark_is_run_with_its_options(build):
    build.main(["bench", "kernels", "--quick"])
    assert build.ran[-1][1:] == [str(ROOT / "benchmarks" / "kernels.py"), "--quick"]
    with pytest.raises(SystemExit, match=r"kernels, prediction, advice, and its options; got 'unheard-of'"):
        build.main(["bench", "unheard-of"])


def test_a_peer_that_cannot_be_installed_is_named_and_left_out(build, capsys):
    build.install_peers(Path("python"))
    assert [command[-1].partition("==")[0] for command in build.ran] == peers.names() == ["numexpr", "torch"]
    assert "could not be installed and is left out" in capsys.readouterr().out
    build.refused = "nothing"
    build.install_peers(Path("python"))
    assert len(build.ran) == 4  # tried again
    build.install_peers(Path("python"))
    assert len(build.ran) == 4


def test_a_peer_that_is_not_there_gives_none():
    assert peers.peer("no_module_of_this_name") is None


def test_how_well_a_second_measurement_agrees_stands_beside_the_model(capsys):
    def row(measured, predicted, full_speed):
        return prediction.Row(
            "f", 1000, Cost(), steady(measured), predicted, predicted, predicted, "peak", 1e-7, 1.0, full_speed
        )

    pair = prediction.Pair(row(1e-3, 1.1e-3, 1.1e-3), row(1.05e-3, 1.1e-3, 1.1e-3), row(2.2e-3, 2.2e-3, 1.1e-3))
    assert prediction.at_speed(pair) == pytest.approx(0.1)
    assert prediction.again_at_once(pair) == pytest.approx(0.05)
    assert prediction.again_later(pair) == pytest.approx(0.1)  # the machine was twice as slow
    prediction.report("made up", [pair], totals=True)
    printed = capsys.readouterr().out
    assert [name for name in prediction.YARDSTICKS if name in printed] == list(prediction.YARDSTICKS)
