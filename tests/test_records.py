import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel import Cost
from accel.figure import text_width, wrap
from accel.measurement import Measurement
from accel.records import RecordError, encodable

COUNTS = st.integers(0, 2**62)


@given(st.lists(COUNTS, min_size=7, max_size=7))
def test_a_record_survives_dict_and_json(counts):
    cost = Cost(*counts)
    assert Cost.from_dict(cost.to_dict()) == cost
    assert Cost.from_json(cost.to_json()) == cost


def test_nested_tuples_come_back_as_tuples():
    measurement = Measurement("add", (1e-6, 2e-6), 100, 0.5)
    again = Measurement.from_json(measurement.to_json())
    assert again == measurement
    assert type(again.samples_seconds) is tuple


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": 3}, "name"),
        ({"samples_seconds": ["fast"]}, "samples_seconds"),
        ({"calls_per_sample": 1.5}, "calls_per_sample"),
        ({"span_seconds": None}, "span_seconds"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_name(change, named):
    data = Measurement("add", (1e-6,), 1, 0.5).to_dict() | change
    with pytest.raises(RecordError, match=named):
        Measurement.from_dict(data)


def test_a_missing_field_is_refused_by_name():
    data = Measurement("add", (1e-6,), 1, 0.5).to_dict()
    del data["samples_seconds"]
    with pytest.raises(RecordError, match="samples_seconds"):
        Measurement.from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": "add"}'])
def test_text_that_is_no_record_is_refused(text):
    with pytest.raises(RecordError, match="not a saved Measurement"):
        Measurement.from_json(text)


def test_json_is_plain():
    assert json.loads(Cost(flops=3).to_json())["flops"] == 3


@pytest.mark.parametrize("name", ["f\ud800", "\udc80", "\udfff\ud800"])
def test_names_with_lone_surrogates_are_drawn_and_saved(name):
    """Such a name is legal in Python (a file's name may hold it), and no encoding knows it."""

    def function(x):
        return x + 1

    function.__name__ = name
    x = np.ones(20)
    found = accel.measure({name: function}, x, seconds=0.01)
    assert [measured.from_json(measured.to_json()) for measured in found.values()] == list(found.values())
    single = accel.measure(function, x, seconds=0.01)
    assert single.from_json(single.to_json()).name == encodable(name)
    traced = accel.trace(function, x)
    assert traced.from_json(traced.to_json()).signature == f"{encodable(name)}(x: float64[20])"


@pytest.mark.parametrize("size", [8.0, 12.0])
def test_text_with_lone_surrogates_can_be_measured_and_broken(size):
    assert text_width("a\ud800b", size) == text_width("a\ufffdb", size)
    assert wrap("a\ud800 b", size) == "a\ufffd b"
