"""The simulator against valgrind's cachegrind, on C programs that make the same accesses."""

import re
import shutil
import subprocess

import pytest

from accel import cache
from accel.cache import CacheLevel, Hierarchy, simulate

GCC, VALGRIND = shutil.which("gcc"), shutil.which("valgrind")
pytestmark = pytest.mark.skipif(
    not (GCC and VALGRIND), reason="needs gcc and valgrind (Debian, Ubuntu: apt-get install gcc libc6-dev valgrind)"
)

D1, LL = CacheLevel("D1", 32 << 10, 8), CacheLevel("LL", 256 << 10, 8)

# Before a kernel all caches are filled with something else, with or without a kernel to follow: what starting and
# ending a program costs is then the same in both, and the kernel finds none of its arrays.
PROGRAM = """
#define MIN(x, y) ((x) < (y) ? (x) : (y))
static float memory[3][SIZE] __attribute__((aligned(4096)));
static volatile char other[1 << 20] __attribute__((aligned(4096)));

static void naive(const float *a, const float *b, float *c) {
    for (long i = 0; i < N; i++)
        for (long j = 0; j < N; j++) {
            float sum = 0;
            for (long k = 0; k < N; k++) sum += a[i * N + k] * b[k * N + j];
            c[i * N + j] = sum;
        }
}

static void rows(const float *a, const float *b, float *c) {
    for (long i = 0; i < N; i++)
        for (long k = 0; k < N; k++) {
            float left = a[i * N + k];
            for (long j = 0; j < N; j++) c[i * N + j] += left * b[k * N + j];
        }
}

/* A function of its own, so that the loops within a tile have all registers to themselves. */
static __attribute__((noinline)) void tile(const float *a, const float *b, float *c, long m, long n, long depth) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float sum = c[i * N + j];
            for (long k = 0; k < depth; k++) sum += a[i * N + k] * b[k * N + j];
            c[i * N + j] = sum;
        }
}

static void tiled(const float *a, const float *b, float *c) {
    for (long i = 0; i < N; i += T)
        for (long j = 0; j < N; j += T)
            for (long k = 0; k < N; k += T)
                tile(a + i * N + k, b + k * N + j, c + i * N + j, MIN(T, N - i), MIN(T, N - j), MIN(T, N - k));
}

static void transposed(const float *a, const float *b, float *c) {
    for (long i = 0; i < N; i++)
        for (long j = 0; j < N; j++) c[j * N + i] = a[i * N + j];
}

static void nothing(const float *a, const float *b, float *c) {}

int main(void) {
    for (long i = 0; i < sizeof other; i += 64) other[i];
    KERNEL(memory[0], memory[1], memory[2]);
    return 0;
}
"""


def cachegrind(folder, kernel, n, tile=1):
    """Compile and run one kernel; return the reads, writes and misses of data that cachegrind counts."""
    size = -(-n * n // 1024) * 1024
    source, program = folder / "program.c", folder / f"{kernel}{n}"
    source.write_text(PROGRAM)
    defined = [f"-DKERNEL={kernel}", f"-DN={n}", f"-DT={tile}", f"-DSIZE={size}"]
    # No vectors, and loops as they are written: one access in the source is one in the program.
    plain = ["-O1", "-fno-tree-vectorize", "-fno-unroll-loops", "-fno-builtin", "-w"]
    subprocess.run([GCC, *plain, *defined, "-o", program, source], check=True)
    sizes = [f"--D1={D1.size_bytes},{D1.ways},{D1.line_bytes}", f"--LL={LL.size_bytes},{LL.ways},{LL.line_bytes}"]
    told = subprocess.run(
        [VALGRIND, "--tool=cachegrind", "--cache-sim=yes", *sizes, "--cachegrind-out-file=/dev/null", program],
        check=True,
        capture_output=True,
        text=True,
    ).stderr
    return {
        name: _counts(told, line)
        for name, line in [("accesses", "D   refs"), ("D1", "D1  misses"), ("LL", "LLd misses")]
    }


def _counts(told, line):
    """Return (reads, writes) of one line of cachegrind's summary."""
    found = re.search(rf"{line}:\s+[\d,]+\s+\(\s*([\d,]+) rd\s+\+\s+([\d,]+) wr\)", told)
    assert found, told
    return tuple(int(number.replace(",", "")) for number in found.groups())


@pytest.fixture(scope="module")
def start_up(tmp_path_factory):
    """Return what starting and ending a program costs, which is no part of the kernels."""
    return cachegrind(tmp_path_factory.mktemp("nothing"), "nothing", 64)


CASES = {
    "naive 64": ("naive", 64, {}),
    "naive 96": ("naive", 96, {}),
    "naive 128": ("naive", 128, {}),
    "rows 96": ("rows", 96, {"order": "ikj"}),
    "tiled 128": ("tiled", 128, {"tile_size": 16}),
    "tiled 96": ("tiled", 96, {"tile_size": 16}),
    "tiled 100": ("tiled", 100, {"tile_size": 16}),
    "transposed 200": ("transposed", 200, {}),
}


def both(case, start_up, folder):
    """Return (reads, writes) of accesses and misses by the simulator, and by cachegrind without what start-up costs."""
    kernel, n, options = CASES[case]
    found = cachegrind(folder, kernel, n, options.get("tile_size", 1))
    arrays = cache.square_matrices(n)
    stream = cache.transpose(arrays[0], arrays[2]) if kernel == "transposed" else cache.matmul(*arrays, **options)
    first, last = simulate(stream, Hierarchy((D1, LL))).levels
    ours = {
        "accesses": (first.reads, first.writes),
        "D1": (first.read_misses, first.write_misses),
        "LL": (last.read_misses, last.write_misses),
    }
    theirs = {
        name: tuple(of_kernel - of_start for of_kernel, of_start in zip(found[name], start_up[name], strict=True))
        for name in found
    }
    return ours, theirs


@pytest.mark.parametrize("case", CASES)
def test_misses_are_those_of_cachegrind(case, start_up, tmp_path):
    ours, theirs = both(case, start_up, tmp_path)
    for name, counts in ours.items():
        # Calls of functions touch a line or two of the stack.
        assert sum(counts) == pytest.approx(sum(theirs[name]), rel=0.01, abs=8), (name, counts, theirs[name])
