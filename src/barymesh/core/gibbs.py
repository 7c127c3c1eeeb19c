"""Compiled products of rows with a Gibbs kernel, in strips of LANES columns. See oracle/gibbs.py."""

from __future__ import annotations

import numba

from barymesh.core.compiling import compiled, compiled_parallel
from barymesh.core.matmul import LANES, add_strip

# terms of the sums added together, so that the parts of both factors stay in the nearest cache
TERMS = 512
# strips computed together by one thread
STRIPS = 8


@compiled
def block_of_strips(a, b, layout, c, block):
    """The strips of one block of columns; ``c`` is zero there."""
    origin, between, step = layout
    terms = a.shape[1]
    last = min((block + 1) * STRIPS, c.shape[1] // LANES)
    for start in range(0, terms, TERMS):
        for strip in range(block * STRIPS, last):
            add_strip(a, b, c, strip * LANES, (start, min(start + TERMS, terms)), origin + strip * between, step)


@compiled
def times_serial(a, b, layout, c):
    """``c (m, columns) += a (m, n) @ K``, where row k of K has its columns ``LANES s, ..., LANES s + LANES - 1`` at
    ``b[origin + s between + k step:]``, with ``layout = (origin, between, step)``."""
    for block in range(-(-c.shape[1] // (STRIPS * LANES))):
        block_of_strips(a, b, layout, c, block)


@compiled_parallel
def times_parallel(a, b, layout, c):
    """``times_serial`` on all cores."""
    for block in numba.prange(-(-c.shape[1] // (STRIPS * LANES))):
        block_of_strips(a, b, layout, c, block)
