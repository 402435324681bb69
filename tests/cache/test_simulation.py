import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel import cache
from accel.cache import CacheLevel, Hierarchy, Simulation, simulate
from accel.kernels import fallback

L1, L2 = CacheLevel("L1", 32 << 10, 8), CacheLevel("L2", 1 << 20, 8)
LINE_FLOATS = 16


class Oracle:
    """One level as a dict of lists: the lines of each set in order of last use, each with its dirty mark."""

    def __init__(self, level):
        self.level, self.sets = level, {}
        self.asked, self.missed, self.filled, self.written_back = [0, 0], [0, 0], 0, 0

    def lines_of(self, line):
        return self.sets.setdefault(line % self.level.sets, [])

    def touch(self, line, write):
        """Return (whether the line was here, the line dropped if it was dirty)."""
        lines = self.lines_of(line)
        for entry in lines:
            if entry[0] == line:
                lines.remove(entry)
                lines.append([line, entry[1] or write])
                return True, None
        self.filled += 1
        lines.append([line, write])
        if len(lines) > self.level.ways:
            old, dirty = lines.pop(0)
            return False, old if dirty else None
        return False, None


class OracleHierarchy:
    def __init__(self, hierarchy):
        self.levels = [Oracle(level) for level in hierarchy.levels]

    def write_back(self, number, address, size):
        """Carry a dirty line from one level to the first below that has it."""
        self.levels[number].written_back += size
        if number + 1 < len(self.levels):
            below = self.levels[number + 1]
            line = address // below.level.line_bytes
            for entry in below.lines_of(line):
                if entry[0] == line:
                    entry[1] = True
                    return
            self.write_back(number + 1, address, size)

    def access(self, address, size, write):
        for number, level in enumerate(self.levels):
            level.asked[write] += 1
            bytes_of_line, hit = level.level.line_bytes, True
            for line in range(address // bytes_of_line, (address + size - 1) // bytes_of_line + 1):
                here, dropped = level.touch(line, write and number == 0)
                hit = hit and here
                if dropped is not None:
                    self.write_back(number, dropped * bytes_of_line, bytes_of_line)
            if hit:
                return
            level.missed[write] += 1

    def counts(self):
        return [
            (
                *level.asked, *level.missed, level.filled, level.written_back,
                sum(dirty for lines in level.sets.values() for _, dirty in lines) * level.level.line_bytes,
            )
            for level in self.levels
        ]  # fmt: skip


def counts(result):
    return [
        (
            level.reads, level.writes, level.read_misses, level.write_misses, level.lines_filled,
            level.bytes_written_back, level.bytes_dirty,
        )
        for level in result.levels
    ]  # fmt: skip


@st.composite
def hierarchies(draw):
    """One to three levels of any associativity, set counts that are no power of two and wide sets among them."""
    levels, size, line = [], 0, draw(st.sampled_from([16, 32]))
    for number in range(draw(st.integers(1, 3))):
        line *= draw(st.sampled_from([1, 1, 2]))
        ways = draw(st.sampled_from([1, 2, 3, 8, 12, 16, 17, 40]))
        sets = draw(st.sampled_from([1, 2, 3, 4]))
        sets = max(sets, -(-size // (ways * line)))
        size = sets * ways * line
        levels.append(CacheLevel(f"L{number + 1}", size, ways, line))
    return Hierarchy(tuple(levels))


@pytest.fixture(params=["compiled", "plain Python"])
def way(request, monkeypatch):
    """Simulate with Numba, and as where it is missing."""
    if request.param == "plain Python":
        monkeypatch.setattr(fallback, "compiled", lambda _name: None)
    elif not fallback._compiler_works():
        pytest.skip("Numba is not installed")
    return request.param


@pytest.mark.parametrize("way", ["compiled", "plain Python"], indirect=True)
def test_both_ways_agree_with_lists_of_lines(way):
    @settings(deadline=None)
    @given(
        hierarchies(),
        st.lists(st.tuples(st.integers(0, 4000), st.sampled_from([1, 4, 8, 70]), st.booleans()), max_size=300),
        st.sampled_from([1, 16, 64]),
    )
    def check(hierarchy, accesses, spacing):
        addresses, sizes, writes = zip(*accesses, strict=True) if accesses else ((), (), ())
        places = [spacing * address for address in addresses]
        oracle = OracleHierarchy(hierarchy)
        for access in zip(places, sizes, writes, strict=True):
            oracle.access(*access)
        stream = cache.accesses(places, size_bytes=list(sizes), writes=np.array(writes, bool))
        assert counts(simulate(stream, hierarchy)) == oracle.counts()

    check()


@pytest.mark.usefixtures("way")
class TestClosedForms:
    def test_a_sequential_pass_misses_once_a_line(self):
        [x] = cache.place({"x": 10_000})
        result = simulate(cache.sequential(x), Hierarchy((L1, L2)))
        assert [level.misses for level in result.levels] == [625, 625]
        assert (result.accesses, result.bytes_from_memory) == (10_000, 40_000)
        assert result.levels[0].miss_rate == 1 / LINE_FLOATS

    @pytest.mark.parametrize(("step", "misses"), [(1, 625), (4, 625), (16, 625), (32, 313), (100, 100)])
    def test_a_strided_pass_misses_once_for_each_line_it_touches(self, step, misses):
        [x] = cache.place({"x": 10_000})
        assert simulate(cache.strided(x, step), Hierarchy(L1)).levels[0].misses == misses

    def test_a_second_pass_hits_what_fits_and_never_what_does_not(self):
        def misses(lines):
            [x] = cache.place({"x": lines * LINE_FLOATS})
            walk = cache.strided(x, LINE_FLOATS)
            return simulate(walk + walk, Hierarchy(CacheLevel.fully_associative("L1", 64 * 64))).levels[0].misses

        assert misses(64) == 64
        assert misses(65) == 130  # LRU drops just what comes next

    @pytest.mark.parametrize(("ways", "expected"), [(1, 2 * 1000), (2, 2 * 63)])
    def test_two_arrays_a_cache_apart_fight_for_one_way_and_share_two(self, ways, expected):
        level = CacheLevel("L1", ways * 4096, ways)
        x, y = cache.place({"x": 1000, "y": 1000}, alignment=4096)
        assert y.start - x.start == 4096
        result = simulate(cache.elementwise([x], y), Hierarchy(level))
        assert result.levels[0].misses == expected
        assert result.array("x").misses == result.array("y").misses == (expected // 2,)

    def test_lines_apart_by_all_sets_overflow_one_set(self):
        nine = cache.accesses(np.tile(np.arange(9) * 64 * 64, 10))
        eight = cache.accesses(np.tile(np.arange(8) * 64 * 64, 10))
        assert simulate(nine, Hierarchy(L1)).levels[0].misses == 90
        assert simulate(eight, Hierarchy(L1)).levels[0].misses == 8

    def test_a_column_walk_by_a_power_of_two_conflicts_and_by_one_more_does_not(self):
        def misses(leading_dimension):
            [a] = cache.place({"A": (32, 32)}, leading_dimension=leading_dimension)
            return simulate(cache.sequential(a.transposed), Hierarchy(L1)).levels[0].misses

        assert misses(1024) == 32 * 32  # 4096 bytes from row to row: all 32 lines in one set of 8 ways
        assert misses(1024 + LINE_FLOATS) == 64  # a line further, so each row has a set of its own

    def test_a_product_whose_columns_do_not_fit_misses_on_every_step(self):
        n = 64
        level = CacheLevel.fully_associative("L1", 64 * 64)  # 64 lines: fewer than a column of B, A's row and C need
        result = simulate(cache.matmul(*cache.square_matrices(n)), Hierarchy(level))
        assert result.array("B").misses == (n**3,)
        assert result.array("A").accesses == n**3

    def test_a_product_that_fits_misses_once_a_line(self):
        for order in ("ijk", "ikj", "jki"):
            result = simulate(cache.matmul(*cache.square_matrices(32), order=order), Hierarchy(L1))
            assert [array.misses for array in result.arrays] == [(64,)] * 3

    def test_tiles_that_fit_miss_once_a_line_of_each_tile(self):
        n, tile = 64, 16
        big_enough = CacheLevel.fully_associative("L1", 4 * tile * 64)  # a tile is 16 lines; LRU needs one to spare
        result = simulate(cache.matmul(*cache.square_matrices(n), tile_size=tile), Hierarchy(big_enough))
        assert result.array("A").misses == result.array("B").misses == ((n // tile) ** 3 * tile,)
        assert result.array("C").misses == ((n // tile) ** 2 * tile,)

    def test_a_transpose_misses_on_every_write_and_tiled_once_a_line(self):
        n = 128
        level = CacheLevel.fully_associative("L1", 64 * 64)
        a, b = cache.square_matrices(n, "AB")
        naive = simulate(cache.transpose(a, b), Hierarchy(level))
        tiled = simulate(cache.transpose(a, b, tile_size=16), Hierarchy(level))
        lines = n * n // LINE_FLOATS
        assert [array.misses for array in naive.arrays] == [(lines,), (n * n,)]
        assert [array.misses for array in tiled.arrays] == [(lines,), (lines,)]

    def test_every_line_written_is_written_back_once_or_still_there(self):
        [x] = cache.place({"x": 100_000})
        result = simulate(cache.sequential(x, write=True), Hierarchy(L1))
        level = result.levels[0]
        assert level.bytes_dirty == L1.size_bytes
        assert level.bytes_written_back + level.bytes_dirty == 400_000
        assert level.bytes_moved == 400_000 + level.bytes_written_back
        assert simulate(cache.sequential(x), Hierarchy(L1)).levels[0].bytes_written_back == 0

    def test_an_access_across_two_lines_touches_both_and_misses_once(self):
        result = simulate(cache.accesses([62, 0, 64, 62], size_bytes=4), Hierarchy(L1))
        assert result.levels[0].misses == 1
        assert result.levels[0].lines_filled == 2


def test_the_leading_dimension_decides_what_a_power_of_two_costs():
    """512 lines, 4096 bytes apart, share 16 sets of 8 ways, far too few; 4092 bytes apart each has a set of its own."""
    hierarchy = Hierarchy((L1, CacheLevel("L2", 512 << 10, 8)))

    def misses(leading_dimension):
        shapes = {"A": (3, 512), "B": (512, 512), "C": (3, 512)}
        result = simulate(cache.matmul(*cache.place(shapes, leading_dimension=leading_dimension)), hierarchy)
        return result.array("B").misses[1]

    assert misses(1024) == 3 * 512**2
    assert misses(1023) < 3 * 512**2 / 10


def test_levels_ask_only_for_what_the_one_before_missed():
    result = simulate(cache.random(*cache.place({"x": 1 << 20}), count=50_000), Hierarchy((L1, L2)))
    first, second = result.levels
    assert second.accesses == first.misses == 50_000 - first.hits
    assert second.misses <= second.accesses


def test_arrays_add_up_to_levels():
    result = simulate(cache.matmul(*cache.square_matrices(40), tile_size=16), Hierarchy((L1, L2)))
    for number, level in enumerate(result.levels):
        assert sum(array.read_misses[number] for array in result.arrays) == level.read_misses
        assert sum(array.write_misses[number] for array in result.arrays) == level.write_misses
    assert sum(array.reads for array in result.arrays) == result.levels[0].reads
    with pytest.raises(KeyError, match="no array is named 'D'"):
        result.array("D")
    with pytest.raises(KeyError, match="L3"):
        result.level("L3")


def test_a_result_survives_json_and_shows_itself():
    result = simulate(cache.sequential(*cache.place({"x": 1000})), Hierarchy((L1, L2)))
    assert Simulation.from_json(result.to_json()) == result
    assert repr(result).splitlines()[:3] == [
        "x in order: 1,000 accesses",
        "level  accesses  misses  miss rate  bytes in  written back",
        "L1        1,000      63      6.30%   3.94 KB           0 B",
    ]
    assert "<table" in result._repr_html_()
    assert "x" in repr(result.array_table())


def test_nothing_to_do_is_counted_as_nothing():
    result = simulate(cache.accesses([]), Hierarchy(L1))
    assert (result.accesses, result.levels[0].miss_rate) == (0, 0.0)
    assert "L1" in repr(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(([1, 2], Hierarchy(L1)), "takes a stream; got list"), ((cache.accesses([1]), L1), "Hierarchy; got CacheLevel")],
)
def test_other_arguments_are_refused(arguments, message):
    with pytest.raises(TypeError, match=message):
        simulate(*arguments)


def test_without_numba_one_notice_is_given(monkeypatch):
    def no_numba(name):
        raise ImportError(f"No module named {name!r}")

    fallback._compiler_works.cache_clear()
    monkeypatch.setattr(fallback.importlib, "import_module", no_numba)
    try:
        with pytest.warns(fallback.CompilerMissingWarning, match="pip install numba"):
            first = simulate(cache.accesses([0, 64, 0]), Hierarchy(L1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert simulate(cache.accesses([0, 64, 0]), Hierarchy(L1)) == first
    finally:
        fallback._compiler_works.cache_clear()
    assert first.levels[0].misses == 2


def test_ways_come_from_the_level_not_from_its_neighbors_in_memory():
    """12 ways lie in 16 slots: the four left over must never hold a line."""
    level = CacheLevel("L1", 12 * 64, 12)
    thirteen = cache.accesses(np.tile(np.arange(13) * 64, 5))
    assert simulate(thirteen, Hierarchy(level)).levels[0].misses == 65


@pytest.mark.speed
def test_products_are_simulated_at_a_hundred_million_accesses_a_second():
    """An absolute figure, which is what the book counts on; a slow phase of the machine may halve it."""
    stream = cache.matmul(*cache.square_matrices(256), tile_size=16)
    simulate(stream, Hierarchy((L1, L2)))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        simulate(stream, Hierarchy((L1, L2)))
        best = min(best, time.perf_counter() - start)
    assert stream.count / best > 50e6
