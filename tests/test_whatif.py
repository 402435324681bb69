"""What-if: the explorer's JavaScript says what `accel.predict` says, and refuses what is no machine."""

from __future__ import annotations

import functools
import gzip
import hashlib
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromium
import msgspec
import numpy as np
import pytest
from chromium import Browser
from machines import DETAILED, LAPTOP
from whatif_page import Page

import accel
from accel import storage, whatif
from accel.machine import Machine
from accel.prediction import predict_trace
from accel.whatif.kernels import DTYPES, EXPONENTS, OFFERED, descriptions
from accel.whatif.widget import page_data

EVERY_OTHER = slice(None, None, 3)
CHANGES: tuple[dict[str, float], ...] = ({}, {"DRAM": 2.0, "peak": 0.5}, {"peak": 4.0, "L1": 2.0, "L2": 0.5, "L3": 1.5})


@functools.cache
def machines() -> dict[str, Machine]:
    return {"page": DETAILED, **storage.references()}


@pytest.fixture(scope="module")
def page(browser: Browser) -> Page:
    loaded = Page(browser)
    loaded.call("hold", page_data(DETAILED))
    return loaded


@functools.cache
def traced(kernel: str, dtype: str, exponent: int) -> Any:
    return OFFERED[kernel].trace(2**exponent, dtype)


def cases(machine: Machine) -> list[tuple[str, str, int, int, dict[str, float]]]:
    """Every kernel in every dtype, at sizes, threads and changes of the machine."""
    threads = sorted({product.threads for product in machine.roofs.matmuls} & {p.threads for p in machine.roofs.peaks})
    sizes = EXPONENTS[EVERY_OTHER]
    return [
        case
        for case in itertools.product(OFFERED, DTYPES, sizes, threads, CHANGES)
        if {peak.dtype for peak in machine.roofs.peaks if peak.threads == case[3]} >= set(DTYPES)
    ]


@pytest.mark.browser
@pytest.mark.parametrize("name", machines())
def test_the_page_says_what_predict_says(name: str, page: Page) -> None:
    machine = machines()[name]
    grid = cases(machine)
    asked = [
        (name, {"kernel": k, "dtype": d, "index": EXPONENTS.index(e), "threads": t, "factors": f})
        for k, d, e, t, f in grid
    ]
    said = page.call("ask", asked)
    assert len(said) == len(grid) >= 13 * 2 * 5 * 3
    changed = {str(change): _scaled(machine, change) for change in CHANGES}
    for (kernel, dtype, exponent, threads, change), found in zip(grid, said, strict=True):
        expected = predict_trace(traced(kernel, dtype, exponent), changed[str(change)], threads=threads)
        where = (kernel, dtype, exponent, threads, change)
        assert found["seconds"] == pytest.approx(expected.seconds, rel=1e-6), where
        assert found["textbook"] == pytest.approx(expected.textbook_seconds, rel=1e-6), where
        assert found["bound"] == expected.bound_by, where
        assert found["peak"] == pytest.approx(changed[str(change)].peak_flops_per_second(dtype, threads), rel=1e-6)
        assert dict(found["levels"]) == pytest.approx(changed[str(change)].level_bandwidths(threads), rel=1e-6)


def _scaled(machine: Machine, change: dict[str, float]) -> Machine:
    levels = {name: factor for name, factor in change.items() if name != "peak"}
    return whatif.scaled(machine, peak=change.get("peak", 1.0), bandwidth=levels)


@pytest.mark.browser
def test_the_page_and_python_agree_on_the_bound_of_a_specification(page: Page) -> None:
    grid = [
        (sheet, kernel, dtype, exponent, threads, change)
        for sheet, kernel, dtype, exponent in itertools.product(whatif.sheets(), OFFERED, DTYPES, EXPONENTS[::4])
        for threads in {sheet.thread_counts[0], sheet.thread_counts[-1]}
        for change in ({}, {"peak": 2.0, "DRAM": 0.5})
    ]
    asked = [
        (
            f"sheet {sheet.name}",
            {"kernel": k, "dtype": d, "index": EXPONENTS.index(e), "threads": t, "factors": change},
        )
        for sheet, k, d, e, t, change in grid
    ]
    for (sheet, kernel, dtype, exponent, threads, change), found in zip(grid, page.call("ask", asked), strict=True):
        described = descriptions()[kernel][dtype][EXPONENTS.index(exponent)]
        expected = whatif.bound_seconds(
            described,
            sheet,
            dtype,
            threads,
            peak=change.get("peak", 1.0),
            bandwidth=change.get("DRAM", 1.0),
        )
        assert found["seconds"] == pytest.approx(expected, rel=1e-9, abs=1e-30), (sheet.name, kernel, dtype, exponent)


@pytest.mark.parametrize("sheet", whatif.sheets(), ids=lambda sheet: sheet.name)
def test_a_specification_names_the_source_of_what_it_says(sheet: whatif.Sheet) -> None:
    assert any("memory" in what for what in sheet.sources)
    assert any("FLOP" in what or "FMA" in what for what in sheet.sources)
    assert all(where.strip() for where in sheet.sources.values())
    assert sheet.peak_flops_per_second("float32", 1) == 2 * sheet.peak_flops_per_second("float64", 1)


def test_specifications_come_to_what_their_makers_state() -> None:
    known = {sheet.name: sheet for sheet in whatif.sheets()}
    gpu = known["NVIDIA A100, 40 GB"]
    assert gpu.peak_flops_per_second("float32", gpu.cores) == pytest.approx(19.5e12, rel=0.01)
    assert gpu.memory_bytes_per_second == pytest.approx(1555e9, rel=0.01)
    assert known["AMD EPYC 7763"].memory_bytes_per_second == pytest.approx(204.8e9, rel=0.01)
    assert known["Intel Core i7-6700K"].memory_bytes_per_second == pytest.approx(34.1e9, rel=0.01)


# --------------------------------------------------------------------------------------------------------- scaling


def test_a_machine_scaled_by_one_is_the_machine() -> None:
    assert whatif.scaled(DETAILED) is DETAILED
    assert whatif.scaled(DETAILED, bandwidth={"L2": 1.0}) is DETAILED


def test_bandwidth_changes_the_level_it_names_and_no_other() -> None:
    faster = whatif.scaled(DETAILED, bandwidth={"DRAM": 3.0})
    before, after = DETAILED.level_bandwidths(), faster.level_bandwidths()
    assert after["DRAM"] == pytest.approx(3 * before["DRAM"])
    assert after["L1"] == before["L1"]
    assert faster.peak_flops_per_second() == DETAILED.peak_flops_per_second()


def test_a_level_of_private_caches_holds_what_threads_share_out() -> None:
    faster = whatif.scaled(DETAILED, bandwidth={"L1": 2.0})
    before, after = (
        next(c for c in m.roofs.bandwidths if (c.operation, c.threads) == ("copy", 4)) for m in (DETAILED, faster)
    )
    assert after.bytes_per_second[0] == 2 * before.bytes_per_second[0]  # 64 KB in four L1 of 32 KB
    assert after.bytes_per_second[1:] == before.bytes_per_second[1:]


def test_a_higher_peak_leaves_the_cost_of_calls() -> None:
    faster = whatif.scaled(DETAILED, peak=1e6)
    small = OFFERED["add"].trace(2**10, "float32")
    before, after = predict_trace(small, DETAILED), predict_trace(small, faster)
    assert after.bound_by == before.bound_by == "dispatch overhead"
    assert after.seconds > 0.5 * before.seconds
    product = OFFERED["matmul"].trace(2**24, "float32")
    assert predict_trace(product, faster).seconds < 0.3 * predict_trace(product, DETAILED).seconds


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bandwidth": {"L4": 2.0}}, r"memory levels \['L1', 'L2', 'L3', 'DRAM'\]; got a factor for \['L4'\]"),
        ({"peak": 0.0}, "peak is 0.0"),
        ({"peak": math.nan}, "peak is nan"),
        ({"bandwidth": {"DRAM": math.inf}}, "DRAM is inf"),
    ],
)
def test_a_factor_that_no_machine_has_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        whatif.scaled(DETAILED, **given)


def test_a_machine_without_roofs_cannot_be_scaled() -> None:
    with pytest.raises(ValueError, match="detected but not measured"):
        whatif.scaled(LAPTOP, peak=2.0)


def test_time_that_only_one_machine_knows_is_not_described() -> None:
    traced = accel.trace(lambda x: sorted(x), np.arange(3000.0))
    assert any(op.kind == "opaque" for op in traced.ops)
    with pytest.raises(ValueError, match="priced on any machine"):
        whatif.describe(traced)


# -------------------------------------------------------------------------------------------------------- the page


def test_what_a_page_carries_is_small() -> None:
    data = json.dumps(page_data(DETAILED), separators=(",", ":")).encode()
    assert len(data) < 250_000
    assert len(gzip.compress(data)) < 30_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kernel": "fft"}, "got 'fft'"),
        ({"dtype": "int8"}, "got 'int8'"),
        ({"size": 9}, "got size=9"),
        ({"DRAM": 100.0}, "from 1/4 to 16"),
        ({"L9": 2.0}, "L9"),
    ],
)
def test_an_explorer_begins_with_what_it_has(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        whatif.explorer(DETAILED, **given)


@pytest.mark.browser
def test_a_state_survives_a_link(page: Page) -> None:
    state = {
        "machine": "sheet NVIDIA A100, 40 GB", "kernel": "matmul", "dtype": "float64", "size": 20, "threads": 108,
        "steps": {"peak": -3, "DRAM": 16},
    }  # fmt: skip
    known = {"machine": [state["machine"]], "kernel": ["matmul"], "dtype": list(DTYPES), "size": list(EXPONENTS)}
    link = page.call("toHash", state)
    assert page.call("fromHash", link, known) == {"state": state, "notes": []}
    assert page.call("fromHash", "#what-the-controls-mean", known) is None


@pytest.mark.browser
@pytest.mark.parametrize(
    "said",
    [
        "machine=<script>", "kernel=__proto__", "dtype=float16", "size=9", "size=1e9", "size=-1", "threads=1.5",
        "DRAM=20",
        "DRAM=0", "DRAM=NaN", "peak=Infinity", "L1=-2", "colour=red", "constructor=x", "steps=1",
    ],
)  # fmt: skip
def test_what_a_link_cannot_say_is_noted_and_ignored(said: str, page: Page) -> None:
    known = {"machine": ["page"], "kernel": ["add"], "dtype": list(DTYPES), "size": list(EXPONENTS)}
    found = page.call("fromHash", f"#what-if?kernel=add&{said}", known)
    assert found == {"state": {"kernel": "add", "steps": {}}, "notes": [f"“{said.partition('=')[0]}”"]}


# ------------------------------------------------------------------------------------------------ a reader's machine


def saved(machine: Machine, tmp_path: Path) -> str:
    """Return the text of a saved machine."""
    path = storage.save(machine, tmp_path / "machine.json")
    assert path is not None
    return path.read_text(encoding="utf-8")


@pytest.fixture
def text(tmp_path: Path) -> str:
    return saved(DETAILED, tmp_path)


def changed(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Change a saved machine and sign it again, as someone would who means harm."""
    document = json.loads(text)
    change(document["machine"])
    machine = json.dumps(document["machine"]).encode()
    return json.dumps(document | {"sha256": hashlib.sha256(msgspec.json.format(machine, indent=-1)).hexdigest()})


@pytest.mark.browser
@pytest.mark.parametrize("name", machines())
def test_a_saved_machine_is_read(name: str, page: Page, tmp_path: Path) -> None:
    machine = machines()[name]
    found = page.call("read", saved(machine, tmp_path))
    assert "error" not in found
    assert found["machine"]["cpu_name"] == machine.cpu_name
    assert found["machine"]["calibration"]["matmuls"] == [rate.to_dict() for rate in machine.roofs.matmuls]
    assert found["note"] == "" or "secure pages" in found["note"]


@pytest.mark.browser
def test_white_space_does_not_change_a_machine(page: Page, text: str) -> None:
    assert "error" not in page.call("read", json.dumps(json.loads(text)))
    assert "error" not in page.call("read", text.replace("\n", "\r\n"))


def _set(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(machine: dict[str, Any]) -> None:
        place: Any = machine
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a number for a name": (_set("cpu_name", value=7), "machine.cpu_name must be text, and is 7"),
    "an endless name": (_set("cpu_name", value="x" * 10**5), "longer than 200 characters"),
    "text for a number": (
        _set("calibration", "view_seconds", value="<img src=x onerror=alert(1)>"),
        "must be a number, and is the text",
    ),
    "a negative time": (_set("calibration", "view_seconds", value=-1.0), "is negative"),
    "no time at all": (_set("calibration", "view_seconds", value=0.0), "must be positive"),
    "a huge number": (_set("calibration", "peaks", 0, "flops_per_second", value=1e300), "no machine is or does"),
    "half a thread": (_set("calibration", "peaks", 0, "threads", value=1.5), "whole number"),
    "an object for a list": (_set("calibration", "peaks", value={"length": 4}), "must be a list, and is an object"),
    "null for a list": (_set("calibration", "streams", value=None), "must be a list, and is null"),
    "no peaks": (_set("calibration", "peaks", value=[]), "it has no peaks"),
    "a million peaks": (_set("calibration", "calls", value=[0] * 6000), "more than 5000 entries"),
    "sizes that shrink": (_set("caches", 1, "size_bytes", value=1), "cache sizes must grow"),
    "a curve too short": (
        _set("calibration", "streams", 0, "seconds_per_byte", value=[1e-11]),
        "each must have one value",
    ),
    "a curve with a zero": (
        _set("calibration", "bandwidths", 0, "bytes_per_second", 0, value=0.0),
        "must be positive",
    ),
    "not measured": (_set("calibration", value=None), "detected but not measured"),
    "a missing part": (lambda machine: machine["calibration"].pop("matmuls") and None, "has no “matmuls”"),
    "nested deep": (_set("extra", value=json.loads("[" * 50 + "]" * 50)), "nested deeper"),
}


@pytest.mark.browser
@pytest.mark.parametrize(("change", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_machine_is_refused_with_the_reason(
    change: Callable[[dict[str, Any]], None], words: str, page: Page, text: str
) -> None:
    found = page.call("read", changed(text, change))
    assert found["error"].startswith("This file cannot be used: ")
    assert words in found["error"]
    assert len(found["error"]) < 300


@pytest.mark.browser
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "it is not JSON"),
        ("<script>alert(1)</script>", "it is not JSON"),
        ("null", "the file must be an object, and is null"),
        ("[1, 2]", "the file must be an object, and is a list"),
        ('{"format": "accel machine", "schema": NaN}', "it is not JSON"),
        ('{"format": "accel machine", "schema": 1e999, "sha256": ""}', "is not a finite number"),
        ('{"format": "accel machine", "schema": 1, "sha256": ""}', "written with schema 1"),
        ('{"format": "<b>x", "schema": 6, "sha256": ""}', "it holds the text “<b>x”"),
        ('{"__proto__": {"format": "accel machine"}}', "has no “format”"),
        ("[" * 100_000, "it is not JSON"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper"),
        ('"' * 1_999_999, "it is not JSON"),
        ("0" * 2_000_001, "larger than 2 MB"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_what_is_no_saved_machine_is_refused(content: str, words: str, page: Page) -> None:
    assert words in page.call("read", content)["error"]


@pytest.mark.browser
def test_names_that_javascript_knows_do_no_harm(page: Page, text: str) -> None:
    document = json.loads(text)
    tricky = changed(text, lambda machine: machine["calibration"]["ceilings"][0].update({"operation": "__proto__"}))
    assert "no cost of float32 add" in page.call("read", tricky)["error"]
    del document["machine"]["cpu_name"]
    assert "error" in page.call("read", json.dumps(document))


@pytest.mark.browser
def test_an_edited_machine_is_refused_where_the_browser_can_tell(browser: Browser, text: str) -> None:
    """Digests are computed on secure pages: loopback is one, and a data address is none."""
    with chromium.serve(Path(__file__).parent) as address:
        page = Page(browser, f"{address}/pages.py")
        page.call("hold", page_data(DETAILED))
        assert page.call("read", text)["note"] == ""
        edited = text.replace("Some CPU", "Some other CPU")
        assert "does not match its digest" in page.call("read", edited)["error"]
