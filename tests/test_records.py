import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel import Cost
from accel.measurement import Measurement
from accel.records import RecordError

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
