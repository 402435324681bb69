import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel import topology
from accel.machine import Cache
from accel.topology import ASSUMED, ASSUMED_CACHES, Level, objection, reconcile

KB, MB = 1 << 10, 1 << 20

# A virtual machine with two CPUs of an AMD server: glibc reports the L3 of the whole package.
VM_LSCPU = """{
   "caches": [
      {"name": "L1d", "one-size": "32768", "all-size": "65536", "ways": 8, "type": "Data", "level": 1,
       "sets": 64, "phy-line": 1, "coherency-size": 64},
      {"name": "L1i", "one-size": "32768", "all-size": "65536", "ways": 8, "type": "Instruction", "level": 1,
       "sets": 64, "phy-line": 1, "coherency-size": 64},
      {"name": "L2", "one-size": "524288", "all-size": "1048576", "ways": 8, "type": "Unified", "level": 2,
       "sets": 1024, "phy-line": 1, "coherency-size": 64},
      {"name": "L3", "one-size": "33554432", "all-size": "33554432", "ways": 16, "type": "Unified", "level": 3,
       "sets": 32768, "phy-line": 1, "coherency-size": 64}
   ]
}"""
VM_GETCONF = """PATH                               /bin:/usr/bin
LEVEL1_ICACHE_SIZE                 32768
LEVEL1_ICACHE_ASSOC
LEVEL1_DCACHE_SIZE                 32768
LEVEL1_DCACHE_ASSOC                8
LEVEL1_DCACHE_LINESIZE             64
LEVEL2_CACHE_SIZE                  524288
LEVEL2_CACHE_ASSOC                 8
LEVEL2_CACHE_LINESIZE              64
LEVEL3_CACHE_SIZE                  268435456
LEVEL3_CACHE_ASSOC                 0
LEVEL3_CACHE_LINESIZE              64
LEVEL4_CACHE_SIZE
LEVEL4_CACHE_ASSOC
"""
VM_CACHES = (
    Cache(level=1, size_bytes=32 * KB, line_bytes=64, ways=8, shared_by_cpus=1),
    Cache(level=2, size_bytes=512 * KB, line_bytes=64, ways=8, shared_by_cpus=1),
    Cache(level=3, size_bytes=32 * MB, line_bytes=64, ways=16, shared_by_cpus=2),
)

# A hybrid laptop: 4 fast cores with two threads each (CPUs 0-7), 8 slow cores (CPUs 8-15) in groups of four.
HYBRID_LSCPU = """{
   "caches": [
      {"name": "L1d", "one-size": "49152", "all-size": "458752", "ways": 12, "type": "Data", "level": 1,
       "sets": 64, "phy-line": 1, "coherency-size": 64},
      {"name": "L1i", "one-size": "32768", "all-size": "655360", "ways": 8, "type": "Instruction", "level": 1,
       "sets": 64, "phy-line": 1, "coherency-size": 64},
      {"name": "L2", "one-size": "1310720", "all-size": "9437184", "ways": 10, "type": "Unified", "level": 2,
       "sets": 2048, "phy-line": 1, "coherency-size": 64},
      {"name": "L3", "one-size": "18874368", "all-size": "18874368", "ways": 12, "type": "Unified", "level": 3,
       "sets": 24576, "phy-line": 1, "coherency-size": 64}
   ]
}"""
APPLE_SYSCTL = """hw.ncpu: 8
hw.byteorder: 1234
hw.memsize: 17179869184
hw.activecpu: 8
hw.perflevel0.physicalcpu: 4
hw.perflevel0.logicalcpu: 4
hw.perflevel0.l1icachesize: 196608
hw.perflevel0.l1dcachesize: 131072
hw.perflevel0.l2cachesize: 12582912
hw.perflevel0.cpusperl2: 4
hw.perflevel0.name: Performance
hw.perflevel1.physicalcpu: 4
hw.perflevel1.l1dcachesize: 65536
hw.perflevel1.l2cachesize: 4194304
hw.perflevel1.cpusperl2: 4
hw.perflevel1.name: Efficiency
hw.cachelinesize: 128
hw.l1icachesize: 131072
hw.l1dcachesize: 65536
hw.l2cachesize: 4194304
hw.nperflevels: 2
hw.cacheconfig: 8 1 4 0 0 0 0 0 0 0
hw.cachesize: 3499048960 65536 4194304 0 0 0 0 0 0 0
"""
INTEL_MAC_SYSCTL = """hw.ncpu: 12
hw.cachelinesize: 64
hw.l1icachesize: 32768
hw.l1dcachesize: 32768
hw.l2cachesize: 262144
hw.l3cachesize: 12582912
hw.cacheconfig: 12 2 2 12 0 0 0 0 0 0
hw.cachesize: 34359738368 32768 262144 12582912 0 0 0 0 0 0
"""


def lay_cpu(root: Path, cpu: int, caches: list[tuple[int, str, str, str, int]]) -> None:
    for index, (level, kind, size, shared, ways) in enumerate(caches):
        directory = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
        directory.mkdir(parents=True)
        fields = {
            "level": level,
            "type": kind,
            "size": size,
            "shared_cpu_list": shared,
            "ways_of_associativity": ways,
            "coherency_line_size": 64,
        }
        for name, value in fields.items():
            (directory / name).write_text(f"{value}\n")


@pytest.fixture
def vm(tmp_path):
    for cpu in range(2):
        own = str(cpu)
        lay_cpu(
            tmp_path,
            cpu,
            [
                (1, "Data", "32K", own, 8),
                (1, "Instruction", "32K", own, 8),
                (2, "Unified", "512K", own, 8),
                (3, "Unified", "32768K", "0-1", 16),
            ],
        )
    return tmp_path


@pytest.fixture
def hybrid(tmp_path):
    for cpu in range(16):
        pair = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
        four = "8-11" if cpu < 12 else "12-15"
        fast = [(1, "Data", "48K", pair, 12), (2, "Unified", "1280K", pair, 10), (3, "Unified", "18432K", "0-15", 12)]
        slow = [
            (1, "Data", "32K", f"{cpu}", 8),
            (2, "Unified", "2048K", four, 16),
            (3, "Unified", "18432K", "0-15", 12),
        ]
        lay_cpu(tmp_path, cpu, fast if cpu < 8 else slow)
    return tmp_path


def test_virtual_machine_outvotes_the_c_library(vm):
    sources = [
        ("sysfs", topology.from_sysfs(vm, range(2))[0]),
        ("lscpu", topology.from_lscpu(VM_LSCPU, 2)),
        ("getconf", topology.from_getconf(VM_GETCONF)),
    ]
    caches, notes = reconcile(sources, 2)
    assert caches == VM_CACHES
    assert notes == ("L3 size: sysfs says 32 MB, lscpu says 32 MB, getconf says 256 MB; 32 MB is used",)


def test_lscpu_alone_knows_the_sharing():
    caches, notes = reconcile([("sysfs", ()), ("lscpu", topology.from_lscpu(VM_LSCPU, 2))], 2)
    assert caches == VM_CACHES
    assert notes == (
        "sysfs: reports no caches here",
        "cache sizes come from lscpu alone: no second source could confirm them",
    )


def test_lscpu_without_bytes_as_older_versions_print():
    text = VM_LSCPU.replace('"32768"', '"32K"').replace('"65536"', '"64K"').replace('"524288"', '"512K"')
    text = text.replace('"1048576"', '"1M"').replace('"33554432"', '"32M"')
    assert topology.from_lscpu(text, 2) == topology.from_lscpu(VM_LSCPU, 2)


@pytest.mark.parametrize("text", ["", "lscpu: invalid option", "[]", "{}", '{"caches": 3}', '{"caches": [4, {}]}'])
def test_lscpu_that_fails_reports_nothing(text):
    assert topology.from_lscpu(text, 2) == ()


def test_hybrid_laptop_uses_the_fast_cores(hybrid):
    levels, notes = topology.from_sysfs(hybrid, range(16))
    assert notes == ("CPUs differ in their caches (a hybrid processor): those of the fast cores are used",)
    caches, _ = reconcile([("sysfs", levels), ("lscpu", topology.from_lscpu(HYBRID_LSCPU, 16))], 16)
    assert caches == (
        Cache(level=1, size_bytes=48 * KB, line_bytes=64, ways=12, shared_by_cpus=2),
        Cache(level=2, size_bytes=1280 * KB, line_bytes=64, ways=10, shared_by_cpus=2),
        Cache(level=3, size_bytes=18 * MB, line_bytes=64, ways=12, shared_by_cpus=16),
    )


def test_a_process_bound_to_slow_cores_sees_their_caches(hybrid):
    levels, notes = topology.from_sysfs(hybrid, range(8, 12))
    assert [level.size_bytes for level in levels] == [32 * KB, 2 * MB, 18 * MB]
    assert [level.shared_by_cpus for level in levels] == [1, 4, 16]
    assert notes == ()


def test_an_uneven_total_says_nothing_about_sharing():
    assert [level.shared_by_cpus for level in topology.from_lscpu(HYBRID_LSCPU, 16)] == [None, None, 16]


def test_apple_processor():
    fast = topology.from_sysctl(APPLE_SYSCTL, "hw.perflevel0.")
    caches, notes = reconcile([("fast cores", fast), ("plain", topology.from_sysctl(APPLE_SYSCTL))], 8)
    assert caches == (
        Cache(level=1, size_bytes=128 * KB, line_bytes=128, ways=None, shared_by_cpus=1),
        Cache(level=2, size_bytes=12 * MB, line_bytes=128, ways=None, shared_by_cpus=4),
    )
    assert notes == (
        "L1 size: fast cores says 128 KB, plain says 64 KB; 128 KB is used",
        "L2 size: fast cores says 12 MB, plain says 4 MB; 12 MB is used",
    )


def test_intel_mac():
    fast = topology.from_sysctl(INTEL_MAC_SYSCTL, "hw.perflevel0.")
    assert fast == ()
    caches, notes = reconcile([("fast cores", fast), ("plain", topology.from_sysctl(INTEL_MAC_SYSCTL))], 12)
    assert [(c.size_bytes, c.shared_by_cpus) for c in caches] == [(32 * KB, 2), (256 * KB, 2), (12 * MB, 12)]
    assert len(notes) == 2


def windows_records(pointer_bytes: int) -> bytes:
    layout = struct.Struct("<Q I 4x BBHII 4x" if pointer_bytes == 8 else "<I I BBHII 4x")
    records = []
    for core in range(4):
        mask = 0b11 << 2 * core
        records.append(layout.pack(mask, 0, 1, 0, 0, 0, 0))  # a core
        records.append(layout.pack(mask, 2, 1, 12, 64, 48 * KB, 2))  # L1 data
        records.append(layout.pack(mask, 2, 1, 8, 64, 32 * KB, 1))  # L1 instructions
        records.append(layout.pack(mask, 2, 2, 10, 64, 1280 * KB, 0))
    records.append(layout.pack(0xFF, 2, 3, 255, 64, 12 * MB, 0))
    return b"".join(records)


@pytest.mark.parametrize("pointer_bytes", [4, 8])
def test_windows(pointer_bytes):
    records = windows_records(pointer_bytes)
    assert len(records) == 17 * (32 if pointer_bytes == 8 else 24)
    levels = topology.from_windows(records + b"\0\0\0", pointer_bytes)
    assert levels == (
        Level(1, 48 * KB, 64, 12, 2),
        Level(2, 1280 * KB, 64, 10, 2),
        Level(3, 12 * MB, 64, None, 8),
    )


def test_py_cpuinfo_with_its_swapped_fields_is_dropped():
    # On x86, py-cpuinfo 9 takes the line size for the size of the L2 in KB, and the size for that of a line.
    info = {"l2_cache_size": 64 * KB, "l2_cache_line_size": 512, "l2_cache_associativity": 6}
    sources = [("Windows", topology.from_windows(windows_records(8))), ("py-cpuinfo", topology.from_cpuinfo(info))]
    caches, notes = reconcile(sources, 8)
    assert [cache.size_bytes for cache in caches] == [48 * KB, 1280 * KB, 12 * MB]
    assert notes[0] == "py-cpuinfo: dropped, because there is no L1 data cache"


def test_py_cpuinfo_with_everything():
    info = {"l1_data_cache_size": 32 * KB, "l2_cache_size": "262144", "l2_cache_line_size": 64, "l3_cache_size": 8 * MB}
    assert topology.from_cpuinfo(info) == (Level(1, 32 * KB), Level(2, 256 * KB, 64), Level(3, 8 * MB))


@pytest.mark.parametrize(
    ("levels", "reason"),
    [
        ((), "there is no L1 data cache"),
        ((Level(2, MB),), "there is no L1 data cache"),
        ((Level(1, 32 * KB), Level(2, 32 * KB)), "L2 of 32 KB is not larger"),
        ((Level(1, 32 * KB), Level(2, MB), Level(3, 512 * KB)), "L3 of 512 KB is not larger"),
        ((Level(1, 32_000),), "L1 of 32,000 bytes is not a size that caches have"),
        ((Level(1, 4 * MB),), "is not a size that caches have"),
        ((Level(1, 32 * KB, line_bytes=48),), "lines of 48 bytes do not exist"),
        ((Level(1, 32 * KB, shared_by_cpus=8),), "cannot be shared by 8 of 4 CPUs"),
        ((Level(1, 32 * KB, shared_by_cpus=0),), "cannot be shared by 0 of 4 CPUs"),
    ],
)
def test_what_is_implausible(levels, reason):
    assert reason in objection(levels, 4)


@pytest.mark.parametrize(
    "l3", [12 * MB, 18 * MB, 1408 * KB, 24 * MB + 768 * KB, 35 * MB + 768 * KB, 105 * MB, 320 * MB]
)
def test_sizes_of_real_caches_pass(l3):
    assert objection((Level(1, 48 * KB), Level(2, 1280 * KB), Level(3, l3)), 4) == ""


def test_an_implausible_source_is_dropped_with_its_reason():
    good = (Level(1, 32 * KB, 64, 8, 1), Level(2, MB, 64, 16, 1))
    caches, notes = reconcile([("bad", (Level(1, 100),)), ("good", good)], 4)
    assert [cache.size_bytes for cache in caches] == [32 * KB, MB]
    assert notes[0] == "bad: dropped, because L1 of 100 bytes is not a size that caches have"


def test_in_a_tie_the_first_source_wins():
    one, other = (Level(1, 32 * KB), Level(2, MB)), (Level(1, 32 * KB), Level(2, 2 * MB))
    assert reconcile([("one", one), ("other", other)], 4)[0][1].size_bytes == MB
    assert reconcile([("other", other), ("one", one)], 4)[0][1].size_bytes == 2 * MB


def test_levels_that_contradict_each_other_leave_the_first_source():
    one = (Level(1, 32 * KB), Level(2, 2 * MB))
    two = (Level(1, 32 * KB), Level(2, 256 * KB), Level(3, MB))
    caches, notes = reconcile([("one", one), ("two", two)], 4)
    assert [cache.size_bytes for cache in caches] == [32 * KB, 2 * MB]
    assert "L3 of 1 MB is not larger than the level before it" in notes[-1]


def test_what_no_source_tells_is_filled_in():
    caches, _ = reconcile([("one", (Level(1, 32 * KB), Level(2, MB), Level(3, 8 * MB)))], 6)
    assert [(cache.line_bytes, cache.ways, cache.shared_by_cpus) for cache in caches] == [
        (64, None, 1),
        (64, None, 1),
        (64, None, 6),
    ]


def test_nothing_found_is_assumed_and_says_so():
    caches, notes = reconcile([("sysfs", ()), ("lscpu", ())], 4)
    assert caches == ASSUMED_CACHES
    assert notes[-1].startswith(ASSUMED)
    assert "L1 32 KB and L2 256 KB" in notes[-1]


levels = st.lists(
    st.builds(
        Level,
        level=st.integers(-1, 5),
        size_bytes=st.one_of(st.integers(-5, 1 << 40), st.sampled_from([32 * KB, 48 * KB, MB, 8 * MB])),
        line_bytes=st.sampled_from([None, 16, 64, 128]),
        ways=st.sampled_from([None, 8]),
        shared_by_cpus=st.sampled_from([None, 1, 2, 64]),
    ),
    max_size=4,
    unique_by=lambda level: level.level,
).map(lambda found: tuple(sorted(found, key=lambda level: level.level)))


@given(st.lists(levels, max_size=4))
def test_whatever_sources_say_the_result_is_plausible(reports):
    caches, _ = reconcile([(f"source {i}", report) for i, report in enumerate(reports)], 4)
    as_levels = tuple(Level(c.level, c.size_bytes, c.line_bytes, c.ways, c.shared_by_cpus) for c in caches)
    assert objection(as_levels, 4) == ""


@given(st.text())
def test_no_text_makes_a_reader_fail(text):
    assert topology.from_lscpu(text, 2) == ()
    topology.from_getconf(text)
    topology.from_sysctl(text)
    topology.parse_size(text)
