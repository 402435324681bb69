import json
import os
import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel import documents, hardware, storage
from accel.machine import SCHEMA, Bandwidth, Blas, Cache, Stream
from accel.storage import MachineFileError
from tests.machines import CALIBRATED, CALIBRATION, LAPTOP, QUICK


@pytest.fixture(autouse=True)
def cache_directory(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="module")
def saved_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "machine.json"
    storage.save(CALIBRATED, path)
    return path.read_bytes()


def refused(content: bytes, folder: Path) -> str:
    path = folder / "suspect.json"
    path.write_bytes(content)
    with pytest.raises(MachineFileError) as caught:
        storage.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "python -m accel calibrate" in message
    return message


def test_a_saved_machine_loads_as_it_was(tmp_path):
    path = tmp_path / "machine.json"
    assert storage.save(CALIBRATED, path) == path
    assert storage.load(path) == CALIBRATED
    assert storage.load(str(path)) == CALIBRATED


def test_an_uncalibrated_machine_can_be_saved_to_a_path(tmp_path):
    storage.save(LAPTOP, tmp_path / "plain.json")
    assert storage.load(tmp_path / "plain.json") == LAPTOP


def test_white_space_does_not_count(saved_bytes, tmp_path):
    path = tmp_path / "from_git.json"
    path.write_bytes(saved_bytes.replace(b"\n", b"\r\n") + b"\r\n")
    assert storage.load(path) == CALIBRATED


def test_every_prefix_is_refused(saved_bytes, tmp_path):
    size = len(saved_bytes)
    cuts = {0, 1, size - 2, size - 1, *range(2, size, size // 50)}
    assert len(cuts) >= 50
    for cut in cuts:
        assert "cut short or damaged" in refused(saved_bytes[:cut], tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_flipped_bit_is_refused(saved_bytes, tmp_path, data):
    position = data.draw(st.integers(0, len(saved_bytes) - 1))
    flipped = bytearray(saved_bytes)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    refused(bytes(flipped), tmp_path)


def number_places(value, place=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from number_places(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from number_places(item, (*place, index))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield place


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), factor=st.sampled_from([0.5, 1.0001, 2, 10]))
def test_every_edited_number_is_refused(saved_bytes, tmp_path, data, factor):
    document = json.loads(saved_bytes)
    *parents, last = data.draw(st.sampled_from([p for p in number_places(document["machine"]) if p != ("schema",)]))
    target = document["machine"]
    for step in parents:
        target = target[step]
    target[last] = target[last] * factor + (1 if target[last] == 0 else 0)
    assert "does not match its digest" in refused(json.dumps(document).encode(), tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cut short or damaged"),
        (b"\xff\xfe\x00", "cut short or damaged"),
        (b"[1, 2]", "not a saved machine"),
        (b"{}", "not a saved machine"),
        (b'{"format": "other", "schema": 1, "sha256": "", "machine": {}}', "it holds 'other'"),
        (b'{"format": "accel machine", "schema": "1", "sha256": "", "machine": {}}', "not a saved machine"),
        (b'{"format": "accel machine", "schema": 1, "sha256": "", "machine": {}, "more": 1}', "not a saved machine"),
    ],
)
def test_foreign_files_are_refused(content, reason, tmp_path):
    assert reason in refused(content, tmp_path)


@pytest.mark.parametrize("content", [b"[" * 200_000, b"[" * 200_000 + b"]" * 200_000 + b"}", b'{"a":' * 200_000])
def test_deep_nesting_is_refused(content, tmp_path):
    head = b'{"format":"accel machine","schema":1,"sha256":"","machine":'
    assert "nested deeper" in refused(head + content, tmp_path)
    refused(content, tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_the_cache_is_refused_without_waiting(cache_directory):
    cache_directory.mkdir()
    path = storage.path_for(CALIBRATED)
    os.mkfifo(path)
    os.mkfifo(cache_directory / "machine-other.json")
    with pytest.raises(MachineFileError, match="it is a pipe, not a regular file"):
        storage.load(path)
    assert storage.find(CALIBRATED) == (None, f"{path} is not used, because it is a pipe, not a regular file")
    path.unlink()
    assert storage.find(CALIBRATED) == (None, "")
    os.mkfifo(path)
    with pytest.warns(UserWarning, match="it is a pipe"):
        assert storage.save(CALIBRATED) is None
    assert path.is_fifo()


def test_another_schema_is_refused_by_name(saved_bytes, tmp_path):
    newer = saved_bytes.replace(b'"schema": %d' % SCHEMA, b'"schema": %d' % (SCHEMA + 1))
    assert f"schema {SCHEMA + 1}, and this version reads schema {SCHEMA}" in refused(newer, tmp_path)


def test_a_file_without_a_field_of_the_machine_is_refused(tmp_path):
    import msgspec

    incomplete = {name: value for name, value in LAPTOP.to_dict().items() if name != "cpu_name"}
    text = msgspec.json.encode(incomplete)
    document = {"format": "accel machine", "schema": SCHEMA, "sha256": documents.digest(text), "machine": incomplete}
    assert "cpu_name" in refused(msgspec.json.encode(document), tmp_path)


STREAM, BAND = CALIBRATION.streams[0], CALIBRATION.bandwidths[0]
IMPOSSIBLE = {
    "negative bandwidth": {"bandwidths": (replace(BAND, bytes_per_second=(-1.0, 1e9, 1e9)),)},
    "shrinking working sets": {"bandwidths": (replace(BAND, working_set_bytes=(1 << 20, 16384, 1 << 27)),)},
    "repeated working sets": {"bandwidths": (replace(BAND, working_set_bytes=(16384, 16384, 1 << 27)),)},
    "unequal lengths": {"bandwidths": (Bandwidth("load", 1, (1, 2), (1e9,)),)},
    "empty curve": {"bandwidths": (Bandwidth("load", 1, (), ()),)},
    "zero time per byte": {"streams": (replace(STREAM, seconds_per_byte=(0.0, 1e-11, 1e-11)),)},
    "unequal spreads": {"streams": (Stream("1R1W", (1, 2), (1e-9, 1e-9), (0.1,)),)},
    "no peak rate": {"peaks": (replace(CALIBRATION.peaks[0], flops_per_second=0.0),)},
    "negative call": {"ceilings": (replace(CALIBRATION.ceilings[0], call_seconds=-1e-9),)},
    "negative pages": {"fresh_pages": replace(CALIBRATION.fresh_pages, seconds_per_byte=(1e-10, -1e-10))},
    "instant product": {"matmuls": (replace(CALIBRATION.matmuls[0], seconds=0.0),)},
    "negative spread": {"spread_fraction": -0.1},
    "infinite loop step": {"interpreted_seconds": float("inf")},
}


@pytest.mark.parametrize("changes", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_calibrations_are_neither_saved_nor_loaded(changes, tmp_path):
    import msgspec

    impossible = LAPTOP.with_calibration(replace(CALIBRATION, **changes))
    with pytest.raises(ValueError, match="calibrate it again"):
        storage.save(impossible, tmp_path / "impossible.json")
    assert not list(tmp_path.glob("*impossible*"))
    # The same content with a digest that is right: only the plausibility check can refuse it.
    refused(storage._render(impossible), tmp_path)
    assert msgspec.json.decode(storage._render(impossible))["sha256"]


@pytest.mark.parametrize(
    "changes",
    [
        {"logical_cpus": 0},
        {"memory_bytes": -1},
        {"quota_cpus": 0.0},
        {"caches": (LAPTOP.caches[1], LAPTOP.caches[0])},
        {"caches": ()},
        {"schema": SCHEMA + 1},
    ],
)
def test_impossible_hardware_is_refused(changes, tmp_path):
    with pytest.raises(ValueError, match="cannot be saved"):
        storage.save(replace(LAPTOP, **changes), tmp_path / "impossible.json")


def test_nothing_kept_yet_is_no_reason():
    assert storage.find(LAPTOP) == (None, "")


def test_a_kept_calibration_is_found_for_the_machine_as_it_is_now():
    path = storage.save(CALIBRATED)
    assert path == storage.path_for(LAPTOP)
    assert path.parent == storage.directory()
    now = replace(LAPTOP, memory_bytes=8 << 30, blas=replace(LAPTOP.blas, threads=1))
    found, reason = storage.find(now)
    assert reason == ""
    assert found == now.with_calibration(CALIBRATION)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"numpy_version": "2.4.7"}, "numpy 2.4.6 then, 2.4.7 now"),
        ({"python_version": "3.13.0"}, "python 3.12.1 then, 3.13.0 now"),
        ({"numba_version": None}, "numba 0.68.1 then, missing now"),
        ({"cpu_name": "Other"}, "CPU Some CPU @ 3.00GHz then, Other now"),
        ({"architecture": "arm64"}, "architecture x86_64 then, arm64 now"),
        ({"system": "Windows"}, "system Linux then, Windows now"),
        ({"simd_bits": 512}, "SIMD width 256 bit then, 512 bit now"),
        ({"quota_cpus": 2.0}, "usable CPUs 4 then, 2 now"),
        ({"affinity_cpus": 1}, "usable CPUs 4 then, 1 now"),
        ({"blas": replace(LAPTOP.blas, kernel="Zen")}, "BLAS kernel Haswell then, Zen now"),
        ({"blas": Blas("MKL", "2026.1", "Haswell", 4)}, "BLAS OpenBLAS 0.3.31 then, MKL 2026.1 now"),
        ({"numpy_version": "2.5", "simd_bits": 128}, "SIMD width 256 bit then, 128 bit now; numpy 2.4.6 then, 2.5 now"),
    ],
)
def test_a_changed_machine_says_what_changed(changes, reason):
    storage.save(CALIBRATED)
    assert storage.find(replace(LAPTOP, **changes)) == (None, reason)


def test_changed_caches_are_named():
    storage.save(CALIBRATED)
    smaller = (*LAPTOP.caches[:2], Cache(level=3, size_bytes=8 << 20, line_bytes=64, ways=None, shared_by_cpus=4))
    found, reason = storage.find(replace(LAPTOP, caches=smaller))
    assert found is None
    assert "L3 16777216 B shared by 4 then" in reason
    assert "L3 8388608 B shared by 4 now" in reason


def test_of_several_kept_machines_the_closest_is_compared():
    storage.save(replace(CALIBRATED, cpu_name="Far", numpy_version="1.0", system="Darwin"))
    storage.save(CALIBRATED)
    assert storage.find(replace(LAPTOP, numpy_version="2.5.0"))[1] == "numpy 2.4.6 then, 2.5.0 now"


def test_a_damaged_kept_file_is_not_used_and_is_replaced():
    path = storage.save(CALIBRATED)
    path.write_bytes(path.read_bytes()[:-40])
    found, reason = storage.find(LAPTOP)
    assert found is None
    assert reason.startswith(f"{path} is not used, because it is cut short or damaged")
    storage.save(QUICK)
    assert storage.load(path) == QUICK


def test_a_kept_file_copied_from_another_machine_is_not_used():
    storage.save(replace(CALIBRATED, cpu_name="Other"), storage.directory().parent / "other.json")
    storage.save(CALIBRATED)
    os.replace(storage.directory().parent / "other.json", storage.path_for(LAPTOP))
    assert storage.find(LAPTOP) == (None, "CPU Other then, Some CPU @ 3.00GHz now")


def test_a_quick_calibration_never_replaces_a_full_one():
    path = storage.save(QUICK)
    assert storage.load(path) == QUICK
    assert storage.save(CALIBRATED) == path
    assert storage.load(path) == CALIBRATED
    assert storage.save(QUICK) == path
    assert storage.load(path) == CALIBRATED


def test_an_uncalibrated_machine_is_not_kept():
    with pytest.raises(ValueError, match=r"call accel\.calibrate\(\) first"):
        storage.save(LAPTOP)


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    # A file where the folder should be: works for root too, whom permissions do not stop.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(
        UserWarning, match=r"could not be kept in .*(Not a directory|exists|cannot find).*ACCEL_CACHE_DIR"
    ):
        assert storage.save(CALIBRATED) is None
    found, reason = storage.find(LAPTOP)
    assert found is None
    assert reason == "" or "cannot be read" in reason


def test_a_path_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        storage.save(CALIBRATED, tmp_path / "missing" / "machine.json")


def test_a_failed_write_leaves_the_good_file_and_no_debris(tmp_path, monkeypatch):
    path = tmp_path / "machine.json"
    storage.save(CALIBRATED, path)
    good = path.read_bytes()

    def disk_full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left"):
        storage.save(QUICK, path)
    assert path.read_bytes() == good
    assert [entry.name for entry in tmp_path.iterdir()] == ["machine.json"]


def test_writers_and_readers_at_once_always_see_a_whole_file():
    path = storage.save(QUICK)
    failures = []

    def write(machine):
        for _ in range(20):
            storage.save(machine)

    def read():
        for _ in range(60):
            try:
                storage.load(path)
            except (MachineFileError, OSError) as error:
                failures.append(error)

    workers = [threading.Thread(target=write, args=(machine,)) for machine in (QUICK, CALIBRATED, QUICK)]
    workers += [threading.Thread(target=read) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    assert storage.load(path) == CALIBRATED
    assert not list(path.parent.glob("*.part"))


def test_two_processes_keep_the_full_calibration(cache_directory):
    program = (
        "import sys; sys.path.insert(0, {folder!r})\n"
        "from tests.machines import CALIBRATED, QUICK\n"
        "from accel import storage\n"
        "for _ in range(25): storage.save({name})\n"
    )
    folder = str(Path(__file__).parent.parent)
    processes = [
        subprocess.Popen([sys.executable, "-c", program.format(folder=folder, name=name)])
        for name in ("QUICK", "CALIBRATED")
    ]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert storage.load(storage.path_for(LAPTOP)) == CALIBRATED


def test_the_real_machine_is_kept_and_found():
    detected = hardware.detect()
    storage.save(detected.with_calibration(CALIBRATION))
    assert storage.find(hardware.detect()) == (detected.with_calibration(CALIBRATION), "")


def test_a_tilde_in_the_variable_is_the_home_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("ACCEL_CACHE_DIR", "~/kept")
    assert storage.directory() == tmp_path / "kept"


def test_without_the_variable_the_users_cache_is_used(monkeypatch):
    monkeypatch.delenv("ACCEL_CACHE_DIR")
    assert "accel" in storage.directory().parts


def test_references_load_by_the_same_strict_rules():
    for name, machine in storage.references().items():
        assert machine.is_calibrated, name
        assert name == name.strip()


def test_loading_does_not_warn(tmp_path):
    storage.save(CALIBRATED, tmp_path / "machine.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        storage.load(tmp_path / "machine.json")
