"""The button that measures in a page: what it is given. tests/site drives it in a browser."""

import base64
import shutil
import subprocess
from dataclasses import replace

import pytest
from access_curves import access_curve
from machines import CALIBRATED, LAPTOP

from accel import browser

CHASE = access_curve("chase", nanoseconds=(1.5, 9.0, 110.0))


def test_the_books_curves_are_handed_over_in_the_units_of_the_charts():
    book = browser.memory(CALIBRATED, CHASE).book
    assert book["latency"] == [[4096, 1.5], [1 << 20, 9.0], [1 << 27, 110.0]]
    load = next(curve for curve in CALIBRATED.calibration.bandwidths if (curve.operation, curve.threads) == ("load", 1))
    expected = zip(load.working_set_bytes, load.bytes_per_second, strict=True)
    assert book["bandwidth"] == [[size, pytest.approx(rate / 1e9, rel=1e-3)] for size, rate in expected]
    assert book["machine"] == str(CALIBRATED)
    assert book["caches"] == [{"name": cache.name, "bytes": cache.size_bytes} for cache in CALIBRATED.caches]


def test_the_button_works_without_curves_and_with_one_of_them():
    assert browser.memory().book["latency"] == []
    alone = browser.memory(CALIBRATED).book
    assert alone["latency"] == []
    assert alone["bandwidth"]
    assert browser.memory(latency=CHASE).book["bandwidth"] == []
    assert browser.memory(latency=CHASE).book["latency"] == browser.memory(CALIBRATED, CHASE).book["latency"]


def test_other_curves_and_other_machines_are_refused():
    with pytest.raises(ValueError, match=r"latency must be a chase; got a curve of pattern 'random'"):
        browser.memory(CALIBRATED, access_curve("random"))
    with pytest.raises(ValueError, match=r"on the machine given; .* has other caches than another machine"):
        browser.memory(CALIBRATED, replace(CHASE, machine="another machine", caches=()))
    with pytest.raises(ValueError, match=r"not calibrated. Run accel.calibrate"):
        browser.memory(LAPTOP)


def test_the_widget_stays_small():
    state = browser.memory(CALIBRATED, CHASE).get_state()
    assert sum(len(str(value)) for value in state.values()) < 50_000


def test_without_the_assembled_part_the_page_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "STREAMS", tmp_path / "missing.wasm")
    assert browser.memory().streams == ""


@pytest.mark.skipif(not browser.STREAMS.exists(), reason="the build, which assembles it, found no npm or has not run")
def test_the_assembled_part_is_webassembly_that_exports_what_the_worker_calls():
    code = base64.b64decode(browser.memory().streams)
    assert code.startswith(b"\0asm\1\0\0\0")
    assert len(code) < 1000
    assert [name for name in (b"follow", b"read", b"memory") if name not in code] == []
    node = shutil.which("node")
    if node:
        asked = "console.log(WebAssembly.validate(require('fs').readFileSync(process.argv[1])))"
        assert subprocess.run([node, "-e", asked, browser.STREAMS], capture_output=True, text=True).stdout == "true\n"
