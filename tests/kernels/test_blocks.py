import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from layouts import LAYOUTS, lay_out

from accel.kernels import blocks


@given(shape=hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=7), size=st.integers(1, 40))
def test_blocks_cover_each_element_once(shape, size):
    seen, cuts = np.zeros(shape, int), list(blocks.blocks(shape, size))
    for cut in cuts:
        seen[cut] += 1
        assert seen[cut].size <= size
    assert (seen == 1).all()
    assert blocks.block_count(shape, size) == len(cuts)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_order_of_contiguous_arrays_is_flat(layout):
    x = lay_out(np.arange(24.0).reshape(2, 3, 4), layout)
    first, second = blocks.in_memory_order(x, x)
    assert first.shape == second.shape == ((24,) if x.flags.forc else (2, 3, 4))
    assert np.shares_memory(first, x)


def test_docstring_examples():
    assert doctest.testmod(blocks).failed == 0
