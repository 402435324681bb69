from xml.etree import ElementTree

import pytest
from comparisons import NAN, comparison, noisy, row
from machines import CALIBRATED, LAPTOP

from accel.tables import Column, Table, comparison_table, machine_table


def test_units_stay_the_same_within_a_column():
    table = comparison_table(comparison(row("loop", 1000, 2.0), row("add", 1000, 4e-4, predicted=5e-4)))
    measured = next(column for column in table.columns if column.head.startswith("measured"))
    assert measured == Column("measured (ms)", ("2,000", "0.400"))
    assert "predicted (ms)" in repr(table)


def test_text_is_aligned_and_short_enough_to_read_on_one_line():
    lines = repr(comparison_table(comparison(row("loop", 1000, 2.0), row("add", 10, 4e-4)))).splitlines()
    assert lines[0] == "Predicted and measured on Some CPU @ 3.00GHz, calibrated 2026-01-02, 2 threads"
    assert all(len(line) <= 100 for line in lines)
    assert lines[2].split() == ["loop", "1,000", "8,000", "16.0", "2,200", "2,000", "+10%", "L2", "bandwidth"]


def test_html_has_a_caption_and_scoped_heads_and_escapes_names():
    root = ElementTree.fromstring(comparison_table(comparison(row("<b>&", 10, 1e-3)), caption="C & D")._repr_html_())
    assert root.find("table/caption").text == "C & D"
    assert {cell.get("scope") for cell in root.iter("th")} == {"col", "row"}
    assert [cell.text for cell in root.iter("th") if cell.get("scope") == "row"] == ["<b>&"]


def test_what_is_not_there_is_a_dash_and_noise_is_said():
    table = comparison_table(comparison(row("copy", 10, 1e-3, flops_each=0, predicted=NAN), noisy()))
    cells = {column.head: column.cells[0] for column in table.columns}
    assert cells["FLOPs (k)"] == cells["predicted (ms)"] == cells["error"] == "–"
    assert table.note == "1 of 2 measurements are not steady"


@pytest.mark.parametrize("seconds", [0.0, 5e-324, NAN, float("inf")])
def test_times_that_cannot_be_do_not_keep_a_table_from_being_shown(seconds):
    table = comparison_table(comparison(row("odd", 8, seconds, predicted=1e-6), row("add", 8, 1e-6)))
    assert "+10%" in repr(table)
    if seconds == 0 or seconds != seconds:
        errors = next(column for column in table.columns if column.head == "error")
        assert errors.cells == ("–", "+10%")


def test_empty_and_ragged_tables_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        comparison_table(comparison())
    with pytest.raises(ValueError, match="equal lengths"):
        Table("T", (Column("a", ("1",)), Column("b", ())))


def test_a_table_can_be_saved_and_loaded():
    table = comparison_table(comparison(row("add", 10, 1e-3)))
    assert Table.from_json(table.to_json()) == table


def test_a_machine_is_told_with_the_roofs_of_one_thread():
    what, value = machine_table(CALIBRATED).columns
    facts = dict(zip(what.cells, value.cells, strict=True))
    assert facts["peak, float32"] == "100 GFLOP/s"
    assert facts["L2, 1 MB"].endswith("GB/s")
    assert facts["DRAM, 16 GB"] == "20 GB/s"
    assert facts["dispatch overhead"] == "410 ns"


def test_a_machine_without_roofs_has_no_table():
    with pytest.raises(ValueError, match="was detected but not measured"):
        machine_table(LAPTOP)
