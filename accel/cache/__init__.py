"""Cache: set-associative caches simulated access by access, and the accesses of the loops that the book studies.

A stream of accesses goes through one to three levels; what comes back says how often each level missed, for which
arrays, and how many bytes moved. `simulate` describes the model.

>>> from accel import cache
>>> a, b, c = cache.square_matrices(96)
>>> caches = cache.Hierarchy((cache.CacheLevel("L1", 32 * 1024, ways=8), cache.CacheLevel("L2", 1024**2, ways=8)))
>>> cache.simulate(cache.matmul(a, b, c), caches)
matmul ijk: 1,778,688 accesses
level   accesses  misses  miss rate  bytes in  written back
L1     1,778,688  56,448      3.17%   3.45 MB       35.6 KB
L2        56,448   1,728      3.06%    108 KB           0 B
L1 32 KB 8-way, 64-byte lines; L2 1 MB 8-way, 64-byte lines
"""

from accel.cache.levels import CacheLevel, Hierarchy
from accel.cache.maps import MissMap, miss_map
from accel.cache.nests import Block, Loop, Nest, Reference, Touch, touch
from accel.cache.places import ArrayPlace, place
from accel.cache.programs import elementwise, matmul, random, sequential, square_matrices, strided, transpose
from accel.cache.results import ArrayCounts, LevelCounts, Simulation
from accel.cache.simulation import Simulator, simulate
from accel.cache.streams import Stream, accesses, from_nest

__all__ = [
    "ArrayCounts",
    "ArrayPlace",
    "Block",
    "CacheLevel",
    "Hierarchy",
    "LevelCounts",
    "Loop",
    "MissMap",
    "Nest",
    "Reference",
    "Simulation",
    "Simulator",
    "Stream",
    "Touch",
    "accesses",
    "elementwise",
    "from_nest",
    "matmul",
    "miss_map",
    "place",
    "random",
    "sequential",
    "simulate",
    "square_matrices",
    "strided",
    "touch",
    "transpose",
]
