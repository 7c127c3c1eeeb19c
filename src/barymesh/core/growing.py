"""Compiled kernels for samples that grow: every draw gets a key, and draws with the same key become one entry.

A node's table lists its entries ``(key, count, sums (d,))`` in the order of their keys: the number of draws with the
key, and the sums of their positions. Positions are whole numbers of a tiny unit, so a table consists of integers, and
depends neither on the order of the draws nor on the batches in which they were added. There are three kinds of keys:

- of a discrete measure: the number of the atom; positions are not needed
- in up to MOST_AXES dimensions: the cell of a lattice, on level 0 a cube of ``2**CELL_BITS`` units. The key interleaves
  the bits of its coordinates (Z-order). Every further level joins pairs of neighbours, along one axis after the other:
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
# positions are clipped to -LARGEST_POSITION .. LARGEST_POSITION - 1; sums of 2**26 of them do not overflow
LARGEST_POSITION = 2 ** (CELL_BITS + AXIS_BITS - 1)
# keys are counted, not sorted, if their range is at most this times the number of draws
COUNTING_SPAN = 8


@compiled_inline
def cell_of(position):
    """The cell of level 0 along one axis, 0 to ``2**AXIS_BITS - 1``."""
    return (position + LARGEST_POSITION) >> CELL_BITS


@compiled
def z_order(positions):
    """The key of the cell of level 0 that contains ``positions (d,)``."""
    if positions.size == 1:
        return cell_of(positions[0])
    key = np.int64(0)
    for axis in range(positions.size):
        cell = cell_of(positions[axis])
        for bit in range(AXIS_BITS):
            key |= ((cell >> bit) & 1) << (bit * positions.size + axis)
    return key


@compiled
def lattice_keys(points, origin, unit, level, number, keys, positions):
    """Fill ``positions (k, d)`` and ``keys (k,)`` of the draws ``points (k, d)``, the first of which is the node's draw
    ``number``."""
    d = origin.size
    for k in range(keys.size):
        for axis in range(d):
            position = np.floor((points[k, axis] - origin[axis]) / unit + 0.5)
            positions[k, axis] = np.int64(min(max(position, -LARGEST_POSITION), LARGEST_POSITION - 1))
        keys[k] = z_order(positions[k]) >> level if d <= MOST_AXES else number + k


@compiled_inline
def copy_entry(keys, counts, sums, target, key, from_counts, from_sums, k):
    """Copy entry k of one table to entry ``target`` of another, with the given key."""
    keys[target], counts[target] = key, from_counts[k]
    for axis in range(sums.shape[1]):
        sums[target, axis] = from_sums[k, axis]


@compiled_inline
def add_entry(counts, sums, target, from_counts, from_sums, k):
    """Add the draws of entry k of one table to entry ``target`` of another."""
    counts[target] += from_counts[k]
    for axis in range(sums.shape[1]):
        sums[target, axis] += from_sums[k, axis]


@compiled
def group_by_key(draw_keys, ones, positions, keys, counts, sums):
    """Sort draws with these keys ``(k,)`` into a table, with one entry for each key; returns its size."""
    size, low = 0, draw_keys.min()
    if draw_keys.max() - low < COUNTING_SPAN * draw_keys.size:
        # counting all keys in the range is faster than sorting
        span = draw_keys.max() - low + 1
        all_counts, all_sums = np.zeros(span, np.int64), np.zeros((span, sums.shape[1]), np.int64)
        for k in range(draw_keys.size):
            add_entry(all_counts, all_sums, draw_keys[k] - low, ones, positions, k)
        for k in range(span):
            if all_counts[k]:
                copy_entry(keys, counts, sums, size, low + k, all_counts, all_sums, k)
                size += 1
        return size
    for k in np.argsort(draw_keys):
        if size > 0 and keys[size - 1] == draw_keys[k]:
            add_entry(counts, sums, size - 1, ones, positions, k)
        else:
            copy_entry(keys, counts, sums, size, draw_keys[k], ones, positions, k)
            size += 1
    return size


@compiled_parallel
def draw_entries(
    seed, batch, nodes, starts, points, discrete, origin, unit, first, last, cumulative, values, root, roots,
    batches, size, level, keys, counts, sums, new_sizes,
):  # fmt: skip
    """Draw the next batches of every node and group them by key: row i fills ``new_sizes[i]`` entries from
    ``starts[i]``.

    Row i draws ``(starts[i + 1] - starts[i]) / batch`` batches, after the ``batches`` that its node has; a node without
    any begins with an empty table. ``points (draws, d)`` already contains the draws of measures given as functions; the
    others are drawn with ``values (components, d)`` for their centres, which are the numbers of the atoms for discrete
    measures.
    """
    for i in numba.prange(nodes.size):
        node, some = nodes[i], slice(starts[i], starts[i + 1])
        draws, count = points[some], starts[i + 1] - starts[i]
        if batches[node] == 0:
            size[node], level[node] = 0, 0
        if last[node] > first[node]:
            for k in range(0, count, batch):
                draw(
                    seed, node, batches[node] + k // batch, first[node], last[node], cumulative, values, root, roots,
                    draws[k : k + batch],
                )  # fmt: skip
        draw_keys, ones, positions = (
            np.empty(count, np.int64),
            np.ones(count, np.int64),
            np.zeros(draws.shape, np.int64),
        )
        if discrete[node]:
            for k in range(count):
                draw_keys[k] = np.int64(draws[k, 0])
        else:
            lattice_keys(draws, origin, unit, level[node], batches[node] * batch, draw_keys, positions)
        new_sizes[i] = group_by_key(draw_keys, ones, positions, keys[some], counts[some], sums[some])


@compiled
def merge(size, keys, counts, sums, new_size, new_keys, new_counts, new_sums):
    """Merge ``new_size`` new entries into a table of ``size`` entries, which has room for all; returns its total
    size."""
    total, k = size, 0
    for j in range(new_size):
        while k < size and keys[k] < new_keys[j]:
            k += 1
        total += k == size or keys[k] != new_keys[j]
    # from the end, so that no entry is overwritten before it is moved
    k, j, target = size - 1, new_size - 1, total - 1
    while j >= 0:
        if k >= 0 and keys[k] >= new_keys[j]:
            copy_entry(keys, counts, sums, target, keys[k], counts, sums, k)
            if keys[k] == new_keys[j]:
                add_entry(counts, sums, target, new_counts, new_sums, j)
                j -= 1
            k -= 1
        else:
            copy_entry(keys, counts, sums, target, new_keys[j], new_counts, new_sums, j)
            j -= 1
        target -= 1
    return total


@compiled
def coarsen(size, keys, counts, sums):
    """Raise the level of a table by one; returns its new size."""
    total = 0
    for k in range(size):
        key = keys[k] >> 1
        if total > 0 and keys[total - 1] == key:
            add_entry(counts, sums, total - 1, counts, sums, k)
        else:
            copy_entry(keys, counts, sums, total, key, counts, sums, k)
            total += 1
    return total


@compiled_parallel
def merge_entries(
    nodes, batch, starts, new_sizes, new_keys, new_counts, new_sums, most, batches, size, level, begin, keys, counts,
    sums,
):  # fmt: skip
    """Merge the entries of ``draw_entries`` into the tables, and raise the level of tables with more than ``most``
    entries until they have no more."""
    for i in numba.prange(nodes.size):
        node, new = nodes[i], slice(starts[i], starts[i + 1])
        own = slice(begin[node], begin[node] + size[node] + new_sizes[i])
        total = merge(
            size[node], keys[own], counts[own], sums[own], new_sizes[i], new_keys[new], new_counts[new], new_sums[new]
        )
        while total > most[node]:
            total = coarsen(total, keys[own], counts[own], sums[own])
            level[node] += 1
        size[node] = total
        batches[node] += (starts[i + 1] - starts[i]) // batch


@compiled_parallel
def copy_tables(nodes, size, begin, keys, counts, sums, new_begin, new_keys, new_counts, new_sums):
    """Copy the tables of the nodes from ``begin`` in one set of arrays to ``new_begin`` in another."""
    for i in numba.prange(nodes.size):
        here, there = begin[nodes[i]], new_begin[nodes[i]]
        for k in range(size[nodes[i]]):
            copy_entry(new_keys, new_counts, new_sums, there + k, keys[here + k], counts, sums, here + k)


@compiled_parallel
def merged_sample(
    nodes, offsets, batch, discrete, origin, unit, centres, batches, begin, keys, counts, sums, points, weights
):
    """The merged sample of row i: ``points (N, d)`` and ``weights (N,)`` in ``offsets[i]:offsets[i + 1]``.

    A point is the mean of the draws with its key; its weight is their share of all draws.
    """
    for i in numba.prange(nodes.size):
        node = nodes[i]
        for k in range(offsets[i], offsets[i + 1]):
            entry = begin[node] + k - offsets[i]
            weights[k] = counts[entry] / (batches[node] * batch)
            for axis in range(origin.size):
                if discrete[node]:
                    points[k, axis] = centres[keys[entry], axis]
                else:
                    points[k, axis] = origin[axis] + unit * (sums[entry, axis] / counts[entry])
