"""Compiled kernels for samples that grow: every draw gets a key, and draws with the same key become one entry.

A node's table lists its entries ``(key, count, sums (d,))`` in the order of their keys: how many draws had the key, and
the sums of their places. Places are whole numbers of a tiny unit, so all of a table is integers: it does not matter in
which order, or how many at a time, the draws were added. Keys come in three kinds:

- of a measure that is a list of atoms: the number of the atom; places are not needed
- in up to MOST_AXES dimensions: the cell of a lattice, on level 0 a cube of ``2**CELL_BITS`` units. The key interleaves
  the bits of its coordinates (Z-order). Every further level joins neighbours in pairs, along one axis after the other:
  then ``key >> 1`` is the cell of the next level, and a table stays sorted when its level rises
- in more dimensions: the number of the draw

The tables of all nodes share the arrays ``keys``, ``counts`` and ``sums``: node i has ``size[i]`` entries from
``begin[i]``.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.core.sampled import draw

# units in a cell of level 0, and cells along an axis, as powers of two: three axes fill the 63 bits of a key
CELL_BITS, AXIS_BITS, MOST_AXES = 16, 21, 3
# places lie in -FARTHEST .. FARTHEST - 1, and draws beyond are moved there; sums of 2**26 of them do not overflow
FARTHEST = 2 ** (CELL_BITS + AXIS_BITS - 1)
# keys are counted and not sorted if they span at most so many numbers for each draw
DENSE = 8


@compiled_inline
def cell_of(place):
    """The cell of level 0 along one axis, 0 to ``2**AXIS_BITS - 1``."""
    return (place + FARTHEST) >> CELL_BITS


@compiled
def interleaved(places):
    """The key of the cell of level 0 that contains ``places (d,)``."""
    if places.size == 1:
        return cell_of(places[0])
    key = np.int64(0)
    for axis in range(places.size):
        cell = cell_of(places[axis])
        for bit in range(AXIS_BITS):
            key |= ((cell >> bit) & 1) << (bit * places.size + axis)
    return key


@compiled
def locate(points, origin, unit, level, number, keys, places):
    """Fill ``places (k, d)`` and ``keys (k,)`` of the draws ``points (k, d)``, the first of which is the node's draw
    ``number``."""
    d = origin.size
    for k in range(keys.size):
        for axis in range(d):
            place = np.floor((points[k, axis] - origin[axis]) / unit + 0.5)
            places[k, axis] = np.int64(min(max(place, -FARTHEST), FARTHEST - 1))
        keys[k] = interleaved(places[k]) >> level if d <= MOST_AXES else number + k


@compiled_inline
def put(keys, counts, sums, place, key, from_counts, from_sums, k):
    """Make entry ``place`` of one table a copy of entry k of another, with its own key."""
    keys[place], counts[place] = key, from_counts[k]
    for axis in range(sums.shape[1]):
        sums[place, axis] = from_sums[k, axis]


@compiled_inline
def add(counts, sums, place, from_counts, from_sums, k):
    """Add the draws of entry k of one table to entry ``place`` of another."""
    counts[place] += from_counts[k]
    for axis in range(sums.shape[1]):
        sums[place, axis] += from_sums[k, axis]


@compiled
def gather(drawn, ones, places, keys, counts, sums):
    """Draws with keys ``drawn (k,)`` as a table: sorted, those with equal keys one entry; returns how many entries."""
    found, low = 0, drawn.min()
    if drawn.max() - low < DENSE * drawn.size:
        # a place for every key costs less than sorting
        span = drawn.max() - low + 1
        all_counts, all_sums = np.zeros(span, np.int64), np.zeros((span, sums.shape[1]), np.int64)
        for k in range(drawn.size):
            add(all_counts, all_sums, drawn[k] - low, ones, places, k)
        for k in range(span):
            if all_counts[k]:
                put(keys, counts, sums, found, low + k, all_counts, all_sums, k)
                found += 1
        return found
    for k in np.argsort(drawn):
        if found > 0 and keys[found - 1] == drawn[k]:
            add(counts, sums, found - 1, ones, places, k)
        else:
            put(keys, counts, sums, found, drawn[k], ones, places, k)
            found += 1
    return found


@compiled_parallel
def draw_entries(
    seed, batch, nodes, starts, points, listed, origin, unit, first, last, cumulative, values, root, roots,
    had, size, level, keys, counts, sums, found,
):  # fmt: skip
    """Draw the next batches of every node and gather them: row i fills ``found[i]`` entries from ``starts[i]``.

    It takes ``(starts[i + 1] - starts[i]) / batch`` batches, after the ``had`` ones its node has; a node that has none
    begins with an empty table. ``points (draws, d)`` already holds the draws of measures that can only be called; the
    others are drawn with ``values (components, d)`` for their centres, which for atoms are their numbers.
    """
    for i in numba.prange(nodes.size):
        node, some = nodes[i], slice(starts[i], starts[i + 1])
        drawn, count = points[some], starts[i + 1] - starts[i]
        if had[node] == 0:
            size[node], level[node] = 0, 0
        if last[node] > first[node]:
            for k in range(0, count, batch):
                draw(
                    seed, node, had[node] + k // batch, first[node], last[node], cumulative, values, root, roots,
                    drawn[k : k + batch],
                )  # fmt: skip
        names, ones, places = np.empty(count, np.int64), np.ones(count, np.int64), np.zeros(drawn.shape, np.int64)
        if listed[node]:
            for k in range(count):
                names[k] = np.int64(drawn[k, 0])
        else:
            locate(drawn, origin, unit, level[node], had[node] * batch, names, places)
        found[i] = gather(names, ones, places, keys[some], counts[some], sums[some])


@compiled
def merge(size, keys, counts, sums, found, new_keys, new_counts, new_sums):
    """Merge ``found`` new entries into a table of ``size`` entries, which has room for all; returns its new size."""
    total, k = size, 0
    for j in range(found):
        while k < size and keys[k] < new_keys[j]:
            k += 1
        total += k == size or keys[k] != new_keys[j]
    # from the back, so that no entry is written over before it has moved
    k, j, place = size - 1, found - 1, total - 1
    while j >= 0:
        if k >= 0 and keys[k] >= new_keys[j]:
            put(keys, counts, sums, place, keys[k], counts, sums, k)
            if keys[k] == new_keys[j]:
                add(counts, sums, place, new_counts, new_sums, j)
                j -= 1
            k -= 1
        else:
            put(keys, counts, sums, place, new_keys[j], new_counts, new_sums, j)
            j -= 1
        place -= 1
    return total


@compiled
def coarsen(size, keys, counts, sums):
    """Raise the level of a table by one; returns its new size."""
    total = 0
    for k in range(size):
        key = keys[k] >> 1
        if total > 0 and keys[total - 1] == key:
            add(counts, sums, total - 1, counts, sums, k)
        else:
            put(keys, counts, sums, total, key, counts, sums, k)
            total += 1
    return total


@compiled_parallel
def merge_entries(
    nodes, batch, starts, found, new_keys, new_counts, new_sums, most, had, size, level, begin, keys, counts, sums,
):  # fmt: skip
    """Merge what ``draw_entries`` found into the tables, and raise the level of those that have more than ``most``
    entries until they have not."""
    for i in numba.prange(nodes.size):
        node, new = nodes[i], slice(starts[i], starts[i + 1])
        own = slice(begin[node], begin[node] + size[node] + found[i])
        total = merge(
            size[node], keys[own], counts[own], sums[own], found[i], new_keys[new], new_counts[new], new_sums[new]
        )
        while total > most[node]:
            total = coarsen(total, keys[own], counts[own], sums[own])
            level[node] += 1
        size[node] = total
        had[node] += (starts[i + 1] - starts[i]) // batch


@compiled_parallel
def move(nodes, size, begin, keys, counts, sums, new_begin, new_keys, new_counts, new_sums):
    """Copy the tables of the nodes from ``begin`` in one set of arrays to ``new_begin`` in another."""
    for i in numba.prange(nodes.size):
        here, there = begin[nodes[i]], new_begin[nodes[i]]
        for k in range(size[nodes[i]]):
            put(new_keys, new_counts, new_sums, there + k, keys[here + k], counts, sums, here + k)


@compiled_parallel
def atoms(nodes, offsets, batch, listed, origin, unit, centres, had, begin, keys, counts, sums, points, weights):
    """The merged sample of row i: ``points (N, d)`` and ``weights (N,)`` in ``offsets[i]:offsets[i + 1]``.

    A point is the mean of the draws with its key, its weight their share of all draws.
    """
    for i in numba.prange(nodes.size):
        node = nodes[i]
        for k in range(offsets[i], offsets[i + 1]):
            entry = begin[node] + k - offsets[i]
            weights[k] = counts[entry] / (had[node] * batch)
            for axis in range(origin.size):
                if listed[node]:
                    points[k, axis] = centres[keys[entry], axis]
                else:
                    points[k, axis] = origin[axis] + unit * (sums[entry, axis] / counts[entry])
