import json
import math
from dataclasses import replace

import pytest
from fleets import NETWORK, fleet_of, worker
from hypothesis import given
from hypothesis import strategies as st
from machines import LAPTOP

from accel.fleet import Fleet, FleetFileError
from accel.records import RecordError

FLEET = fleet_of(worker("a"), worker("b", "10.0.0.2"))


def test_a_saved_fleet_is_the_same_fleet(tmp_path):
    path = FLEET.save(tmp_path / "fleet.json")
    assert Fleet.load(path) == FLEET
    assert [entry.name for entry in tmp_path.iterdir()] == ["fleet.json"]


def test_a_fleet_becomes_plain_data_and_back():
    assert Fleet.from_dict(json.loads(json.dumps(FLEET.to_dict()))) == FLEET
    with pytest.raises(RecordError, match="workers"):
        Fleet.from_dict({})


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:-1], "cut short"),
        (lambda text: text[: len(text) // 2], "cut short"),
        (lambda text: text.replace(b"10.0.0.2", b"10.0.0.3"), "digest"),
        (lambda text: text.replace(b'"schema": 1,', b'"schema": 99,', 1), "schema 99"),
        (lambda text: text.replace(b"accel fleet", b"accel sheep"), "accel sheep"),
        (lambda text: b"{}", "not a saved fleet"),
        (lambda text: b"", "cut short"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path, damage, reason):
    path = FLEET.save(tmp_path / "fleet.json")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FleetFileError, match=rf"{reason}.*python -m accel fleet"):
        Fleet.load(path)


def test_a_folder_is_no_fleet(tmp_path):
    with pytest.raises((FleetFileError, OSError)):
        Fleet.load(tmp_path)


@pytest.mark.parametrize(
    ("fleet", "reason"),
    [
        (fleet_of(), "has workers"),
        (fleet_of(worker("a"), worker("a")), "name of its own"),
        (fleet_of(worker("a", machine=LAPTOP)), "not measured"),
        (fleet_of(worker("a", cpu_share_fraction=math.nan)), "share of a CPU"),
        (replace(FLEET, scheduler_seconds_per_task=0.0), "per task"),
        (replace(FLEET, network=replace(NETWORK, sizes_bytes=(8, 8, 9))), "must grow"),
        (replace(FLEET, network=replace(NETWORK, seconds=(1.0, 2.0))), "one time"),
        (replace(FLEET, network=replace(NETWORK, latency_seconds=-1.0)), "positive"),
    ],
)
def test_what_no_fleet_can_be_is_not_saved(tmp_path, fleet, reason):
    with pytest.raises(ValueError, match=reason):
        fleet.save(tmp_path / "fleet.json")
    assert not list(tmp_path.iterdir())


def test_hosts_and_workers_by_name():
    assert FLEET.hosts == ("10.0.0.1", "10.0.0.2")
    assert FLEET.worker("b").host == "10.0.0.2"
    with pytest.raises(KeyError, match="'c'"):
        FLEET.worker("c")


@given(st.floats(1, 1e12), st.floats(1, 1e12))
def test_larger_messages_take_longer(a, b):
    small, large = sorted((a, b))
    assert NETWORK.transfer_seconds(small) <= NETWORK.transfer_seconds(large)


def test_the_time_of_a_message_at_measured_sizes_and_beyond():
    assert [NETWORK.transfer_seconds(size) for size in NETWORK.sizes_bytes] == list(NETWORK.seconds)
    assert NETWORK.bandwidth_bytes_per_second == pytest.approx(5e8)
    assert NETWORK.transfer_seconds(2_000_000) == pytest.approx(4e-3)
