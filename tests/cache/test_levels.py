from dataclasses import replace

import numpy as np
import pytest
from machines import LAPTOP

from accel.cache import ArrayPlace, CacheLevel, Hierarchy, place
from accel.machine import Cache
from accel.records import RecordError

L1, L2 = CacheLevel("L1", 32 << 10, 8), CacheLevel("L2", 1 << 20, 8)


def test_a_level_divides_into_sets_of_ways():
    assert (L1.lines, L1.sets) == (512, 64)
    assert CacheLevel("L1", 4096, 1).sets == 64
    assert CacheLevel.fully_associative("L1", 4096).sets == 1
    assert str(CacheLevel.fully_associative("L1", 4096)) == "L1 4 KB fully associative, 64-byte lines"
    assert str(CacheLevel("L1", 4096, 1, 32)) == "L1 4 KB direct-mapped, 32-byte lines"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("L1", 1000, 8), ValueError, "whole number of sets.*got 1000 bytes"),
        (("L1", 32 << 10, 7), ValueError, "7 x 64 = 448"),
        (("L1", 32 << 10, 8, 48), ValueError, "line_bytes must be a power of two; L1 got 48"),
        (("L1", 0, 8), ValueError, "size_bytes must be at least 1; got 0"),
        (("L1", 32 << 10, -1), ValueError, "ways must be at least 1; got -1"),
        (("L1", 32e3, 8), TypeError, "size_bytes must be a whole number; got 32000.0"),
        (("", 32 << 10, 8), TypeError, "needs a name"),
        ((1, 32 << 10, 8), TypeError, "needs a name; got 1"),
    ],
)
def test_levels_that_cannot_be_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        CacheLevel(*arguments)


@pytest.mark.parametrize(
    ("levels", "error", "message"),
    [
        ((), ValueError, "one to 3 levels; got 0"),
        ((L1, L2, CacheLevel("L3", 4 << 20, 8), CacheLevel("L4", 8 << 20, 8)), ValueError, "got 4"),
        ((L2, L1), ValueError, "as large as the one before it.*got L2 1 MB"),
        ((L1, CacheLevel("L2", 1 << 20, 8, 32)), ValueError, "with lines as long"),
        ((L1, CacheLevel("L1", 1 << 20, 8)), ValueError, "names of their own; got L1, L1"),
        ((L1, 32 << 10), TypeError, "made of CacheLevel; got int"),
    ],
)
def test_hierarchies_that_cannot_be_are_refused(levels, error, message):
    with pytest.raises(error, match=message):
        Hierarchy(levels)


def test_sizes_from_numpy_are_whole_numbers_too():
    level = CacheLevel("L1", np.int64(4096), np.int32(2))
    assert type(level.size_bytes) is int
    assert Hierarchy.from_json(Hierarchy((level,)).to_json()) == Hierarchy((level,))


def test_a_saved_level_that_cannot_be_is_refused():
    with pytest.raises(RecordError, match="power of two"):
        CacheLevel.from_dict(L1.to_dict() | {"line_bytes": 48})


def test_one_level_is_a_hierarchy_and_an_unknown_name_is_an_error():
    assert Hierarchy(L1) == Hierarchy((L1,)) == Hierarchy([L1])
    with pytest.raises(KeyError, match="'L9'; there are L1"):
        Hierarchy(L1).index("L9")


def test_a_machine_gives_its_caches():
    hierarchy = Hierarchy.of(LAPTOP)
    assert hierarchy.levels[:2] == (L1, CacheLevel("L2", 1 << 20, 8))
    assert hierarchy.levels[2] == CacheLevel("L3", 16 << 20, 16)  # its ways are not known
    assert Hierarchy.of(LAPTOP, levels=1).names == ("L1",)
    assert Hierarchy.of(replace(LAPTOP, caches=LAPTOP.caches[::-1])) == hierarchy


@pytest.mark.parametrize(
    ("size", "ways", "expected"), [(45 << 20, 20, 20), (33 << 20, 16, 16), (1000, 4, 3), (64, 8, 1)]
)
def test_a_cache_of_any_size_gets_ways_that_divide_it(size, ways, expected):
    odd = replace(LAPTOP, caches=(Cache(3, size, 64, ways, 1),))
    [level] = Hierarchy.of(odd).levels
    assert level.ways == expected
    assert 0 <= size - level.size_bytes < 64


def test_a_machine_without_caches_is_refused():
    with pytest.raises(ValueError, match="does not say what caches it has"):
        Hierarchy.of(replace(LAPTOP, caches=()))


def test_arrays_lie_one_after_the_other_on_pages():
    a, b = place({"A": (3, 5), "b": 7}, np.float64, leading_dimension=6)
    assert (a.row_bytes, a.column_bytes, a.stop) == (48, 8, 2 * 48 + 40)
    assert (b.start, b.shape, b.size_bytes) == (4096, (1, 7), 56)
    assert place({"A": (3, 5)}, start=100, alignment=64)[0].start == 128


@pytest.mark.parametrize(
    "array", [np.zeros((4, 6)), np.zeros((4, 6), order="F"), np.zeros((8, 6))[::2, ::3], np.zeros(5)]
)
def test_an_array_is_found_where_it_lies(array):
    found = ArrayPlace.of("x", array)
    matrix = np.atleast_2d(array)
    rows, columns = np.indices(matrix.shape).reshape(2, -1)
    addresses = np.array([matrix[i : i + 1, j : j + 1].ctypes.data for i, j in zip(rows, columns, strict=True)])
    assert [found.address(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True)] == addresses.tolist()
    np.testing.assert_array_equal(found.elements_at(addresses), (rows, columns))
    assert found.stop == addresses.max() + 8


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros((4, 6))[::-1], ValueError),
        (np.broadcast_to(np.zeros(3), (2, 3)), ValueError),
        (np.zeros((2, 2, 2)), ValueError),
        (np.zeros(0), ValueError),
        (np.float64(1), TypeError),
        ([1, 2], TypeError),
    ],
)
def test_arrays_without_a_plain_place_are_refused(array, error):
    with pytest.raises(error):
        ArrayPlace.of("x", array)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"start": -4}, ValueError, "start must be at least 0; got -4"),
        ({"start": 2**62}, ValueError, "end at an address up to"),
        ({"shape": (4, 0)}, ValueError, "at least 1; got 0"),
        ({"shape": (4, 4, 4)}, ValueError, "rows and columns"),
        ({"row_bytes": 12}, ValueError, "must not overlap"),
        ({"column_bytes": 2}, ValueError, "must not overlap"),
        ({"item_bytes": 4.0}, TypeError, "item_bytes must be a whole number"),
        ({"name": ""}, TypeError, "needs a name"),
    ],
)
def test_places_that_cannot_be_are_refused(change, error, message):
    fields = {"name": "A", "start": 0, "shape": (4, 4), "item_bytes": 4, "row_bytes": 16, "column_bytes": 4}
    with pytest.raises(error, match=message):
        ArrayPlace(**(fields | change))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: place({}), ValueError, "at least one array"),
        (lambda: place({"A": (4, 4)}, leading_dimension=3), ValueError, "at least the 4 columns of A; got 3"),
        (lambda: place({"A": 2.5}), TypeError, "whole number; got 2.5"),
        (lambda: place({"A": 4}, start=-1), ValueError, "start must be at least 0"),
    ],
)
def test_what_cannot_be_placed_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_transposed_place_is_the_same_memory():
    [a] = place({"A": (3, 5)})
    assert a.transposed.address(4, 2) == a.address(2, 4)
    assert a.transposed.transposed == a
