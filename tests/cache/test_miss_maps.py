import numpy as np
import pytest

from accel import cache
from accel.cache import CacheLevel, Hierarchy, MissMap, miss_map, simulate

SMALL = Hierarchy((CacheLevel("L1", 4096, 4), CacheLevel("L2", 64 << 10, 8)))


def test_a_sequential_pass_misses_once_in_each_line():
    [x] = cache.place({"x": (3, 40)}, leading_dimension=48)
    found = miss_map(cache.sequential(x), SMALL, "x")
    assert found.cell == (1, 16)
    assert found.misses == ((1, 1, 1),) * 3


def test_by_element_the_first_of_each_line_misses():
    [x] = cache.place({"x": (2, 32)})
    expected = tuple(int(j % 16 == 0) for j in range(32))
    assert miss_map(cache.sequential(x), SMALL, "x", cell=(1, 1)).misses == (expected,) * 2


def test_rows_that_share_a_line_miss_once_between_them():
    [x] = cache.place({"x": (2, 15)})  # 30 elements in two lines
    found = miss_map(cache.sequential(x), SMALL, "x", cell=(1, 1))
    assert found.misses == ((1, *[0] * 14), (0, 1, *[0] * 13))


@pytest.mark.parametrize("level", ["L1", "L2"])
@pytest.mark.parametrize("array", ["A", "B", "C"])
def test_a_map_adds_up_to_the_simulation(array, level):
    stream = cache.matmul(*cache.square_matrices(70), tile_size=32)
    result = simulate(stream, SMALL)
    expected = result.array(array).misses[SMALL.index(level)]
    for cell in (None, (1, 1), (32, 32), (1000, 1000)):
        assert miss_map(stream, SMALL, array, level=level, cell=cell).total == expected > 0


def test_a_column_major_array_has_cells_along_its_columns():
    x = cache.ArrayPlace.of("x", np.zeros((32, 4), np.float32, order="F"))
    aligned = cache.ArrayPlace("x", 0, x.shape, 4, x.row_bytes, x.column_bytes)
    found = miss_map(cache.sequential(aligned.transposed), SMALL, "x")
    assert (found.cell, found.misses) == ((1, 16), ((1, 1),) * 4)
    assert miss_map(cache.sequential(aligned), SMALL, "x").cell == (16, 1)


def test_a_map_survives_json_and_names_what_it_shows():
    found = miss_map(cache.sequential(*cache.place({"x": 40})), SMALL, "x", level="L2")
    assert MissMap.from_json(found.to_json()) == found
    assert (found.stream, found.level) == ("x in order", "L2 64 KB 8-way, 64-byte lines")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"array": "y"}, KeyError, "'y'; there are x"),
        ({"level": "L3"}, KeyError, "'L3'; there are L1, L2"),
        ({"cell": (0, 1)}, ValueError, "at least 1; got 0"),
        ({"cell": 4}, TypeError, "tuple .rows, columns.; got 4"),
    ],
)
def test_what_is_not_there_is_refused(options, error, message):
    stream = cache.sequential(*cache.place({"x": 40}))
    with pytest.raises(error, match=message):
        miss_map(stream, SMALL, **({"array": "x"} | options))
