"""Compiled kernels for measures on a regular grid with a cost that adds up over the axes.

There ``exp(-c(z, y)/reg)`` is a product of one small matrix per axis, so the two sums of the oracle

    Z(y)      = sum_l exp(x_l) K(l, y)                 x = lam / reg
    log p_l   = x_l + log sum_y K(l, y) mu(y) / Z(y)

cost one small matrix product for each axis instead of one exponential for each pair. ``fast_nodes`` does just that, and
checks every node for underflow. Nodes that fail the check are computed by ``safe_nodes``, which stores an exponent with
every block of numbers (block floating point) and so cannot underflow.

Shapes: a node's potential is ``(n,) = (n_0 ... n_{d-1})`` flattened in C order; its atoms are listed by their flat
position on the atom grid ``(N_0 ... N_{d-1})``. A box ``(d, 2)`` is a start and a stop for each axis: images have empty
margins, which the sums leave out.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.core.matmul import matmul, padded
from barymesh.core.vector_math import fast_exp, fast_log, fma
from barymesh.core.vector_sums import dot

# below this a sum of products may have lost terms that matter; see the guard in fast_node
TINY_64, TINY_32 = 1e-290, 1e-30
# nodes whose potentials range over more than this are not tried: none has passed with more than 700
LARGEST_RANGE_64, LARGEST_RANGE_32 = 800.0, 100.0
# log 0: finite, because fastmath assumes that there are no infinities
LOG_ZERO = -1e12
# a sum in block floating point above this is exact to rounding
SAFE = 2.0**-950
# rows of the result computed together: the matrix product has tiles of six rows
BAND = 6
LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
BIG = 6755399441055744.0


@compiled
def product_apply(source, target, spare, first, others, source_box, target_box):
    """Multiply the array ``source`` by one matrix along every axis, into ``target``.

    ``first``: ``(n_last, padded N_last)``, zero in the padding; ``others``: ``(N_a, n_a)`` for the axes before the
    last. ``source (prod n)``; ``target`` and ``spare`` hold the largest intermediate, last axis padded.
    The source is taken as zero outside ``source_box (d, 2)``, and only ``target_box`` is computed. The boxes are used
    along the current axis, the first axis and the last.
    """
    axes = len(others) + 1
    rows = source.size // first.shape[0]
    width = first.shape[1]
    size = rows * width
    current, following = (target, spare) if len(others) % 2 == 0 else (spare, target)
    columns = (target_box[axes - 1, 0], target_box[axes - 1, 1])
    inner = (source_box[axes - 1, 0], source_box[axes - 1, 1])
    wanted = (0, 1)
    if axes > 1:
        per_slab = rows // others[0].shape[1]
        wanted = (source_box[0, 0] * per_slab, source_box[0, 1] * per_slab)
    matmul(source.reshape(rows, first.shape[0]), first, current[:size].reshape(rows, width), wanted, columns, inner)
    post = width
    pre = rows
    for k in range(len(others) - 1, -1, -1):
        matrix = others[k]
        n_out, n_in = matrix.shape
        pre //= n_in
        blocks = (0, 1)
        if k > 0:
            per_slab = pre // others[0].shape[1]
            blocks = (source_box[0, 0] * per_slab, source_box[0, 1] * per_slab)
        wanted = (target_box[k, 0], target_box[k, 1])
        inner = (source_box[k, 0], source_box[k, 1])
        for p in range(blocks[0], blocks[1]):
            block = current[p * n_in * post : (p + 1) * n_in * post].reshape(n_in, post)
            out = following[p * n_out * post : (p + 1) * n_out * post].reshape(n_out, post)
            matmul(matrix, block, out, wanted, columns, inner)
        post *= n_out
        columns = (0, post)
        current, following = following, current


@compiled
def fast_node(
    x, position, padded_position, weight, first, others, backward_first, backward_others, box, whole, log_p, buffers
):
    """One node in ordinary arithmetic. Returns ``(ok, log-sum-exp value)`` and fills ``log_p (n,)``.

    ``first, others`` are the matrices from the support to the atoms, ``backward_first, backward_others`` those in the
    other direction; ``box (d, 2)`` contains the node's atoms and ``whole`` the support; see ``product_apply``. The
    check: a term lost to underflow is below 1e-307, so a sum above TINY_64 (or TINY_32) is exact to rounding.
    """
    e, z, spare, q = buffers
    n, atoms = x.size, position.size
    tiny = TINY_64 if e.itemsize == 8 else TINY_32
    highest, lowest = x[0], x[0]
    for k in range(n):
        highest = max(highest, x[k])
        lowest = min(lowest, x[k])
    if highest - lowest > (LARGEST_RANGE_64 if e.itemsize == 8 else LARGEST_RANGE_32):
        return False, 0.0
    for k in range(n):
        e[k] = fast_exp(x[k] - highest)
    product_apply(e[:n], z, spare, first, others, whole, box)
    z_atoms = spare[:atoms]
    for k in range(atoms):
        z_atoms[k] = z[padded_position[k]]
    lowest = z_atoms[0]
    for k in range(atoms):
        lowest = min(lowest, z_atoms[k])
    if not lowest > tiny:
        return False, 0.0
    logs = np.empty(atoms)
    for k in range(atoms):
        logs[k] = fast_log(np.float64(z_atoms[k]))
    total = dot(weight, logs)
    largest = 0.0
    for k in range(atoms):
        z_atoms[k] = weight[k] / z_atoms[k]
        largest = max(largest, z_atoms[k])
    q[:] = 0.0
    for k in range(atoms):
        q[position[k]] = z_atoms[k]
    product_apply(q, z, spare, backward_first, backward_others, box, whole)
    width_in, width_out = backward_first.shape[1], first.shape[0]
    rows = n // width_out
    lowest = largest
    for r in range(rows):
        for k in range(width_out):
            number = z[r * width_in + k]
            e[r * width_out + k] = number
            lowest = min(lowest, number)
    # a kernel entry below 1e-307 may have been multiplied by a factor as large as `largest`
    if not lowest > tiny * max(largest, 1.0):
        return False, 0.0
    for k in range(n):
        log_p[k] = x[k] - highest + fast_log(np.float64(e[k]))
    return True, total + highest


@compiled_inline
def power_of_two(k):
    """``2^k`` for a whole number ``-1023 < k <= 1023`` stored as a float; 0 below."""
    bits = np.float64(max(k, -1023.0) + BIG).view(np.int64)
    return np.int64((bits + np.int64(1023)) << np.int64(52)).view(np.float64)


@compiled
def chunk_product(mantissa, factors, c, first, count, source, part):
    """Chunk c's part of the sums for ``count`` y from ``first`` on, without its exponents: ``part (count, rows)``."""
    chunk = mantissa.shape[2]
    inner = (max(source[0] - c * chunk, 0), min(source[1] - c * chunk, chunk))
    matmul(mantissa[c, first : first + count], factors[c], part, (0, count), (0, part.shape[1]), inner)


@compiled
def log_matmul(a, mantissa, exponent, source, target, out):
    """``out[y, r] = log sum_l exp(a[l, r] - k[l, y])`` in block floating point; returns ``smallest (rows,)``.

    Only l in the range ``source`` and y in ``target`` are present: ``a (source, rows)``, ``out (target, rows)``, rows a
    multiple of LANES; LOG_ZERO stands for log 0. ``exp(-k)`` is given in blocks of ``chunk`` neighbouring l:
    ``mantissa (chunks, N, chunk)`` in (0, 1], times ``2^exponent (chunks, N)``. The input gets an exponent for each
    chunk and r likewise. Inside a chunk the sum is an ordinary matrix product; the chunks are added with their
    exponents, which are whole numbers and cost no exponential.

    What lies 2^-1022 below the highest exponent is dropped, so column r is exact to rounding if its ``smallest[r]``,
    the least sum relative to that exponent, is above SAFE.
    """
    rows = a.shape[1]
    chunk = mantissa.shape[2]
    lowest_chunk, chunks = source[0] // chunk, -(-source[1] // chunk)
    tops, factors = np.empty((chunks, rows)), np.empty((chunks, chunk, rows))
    part, highest, smallest = np.empty((2, BAND, rows)), np.empty((BAND, rows)), np.ones(rows)
    # running maxima alternate between two rows: in place they would compile to masked stores, several times slower
    maxima = np.empty((2, rows))
    for c in range(lowest_chunk, chunks):
        start, stop = max(source[0], c * chunk), min(source[1], (c + 1) * chunk)
        now = 0
        for r in range(rows):
            maxima[now, r] = max(a[start - source[0], r], LOG_ZERO)
        for k in range(start + 1, stop):
            for r in range(rows):
                maxima[1 - now, r] = max(maxima[now, r], a[k - source[0], r])
            now = 1 - now
        for r in range(rows):
            tops[c, r] = np.ceil(maxima[now, r] * LOG2_E)
        for k in range(start, stop):
            for r in range(rows):
                factors[c, k - c * chunk, r] = fast_exp(a[k - source[0], r] - tops[c, r] * LN2)
    # a few y at a time, so that their data stay in the fastest cache
    for first in range(target[0], target[1], BAND):
        count = min(target[1] - first, BAND)
        place = first - target[0]
        for y in range(count):
            now = 0
            for r in range(rows):
                maxima[now, r] = tops[lowest_chunk, r] + exponent[lowest_chunk, first + y]
            for c in range(lowest_chunk + 1, chunks):
                for r in range(rows):
                    maxima[1 - now, r] = max(maxima[now, r], tops[c, r] + exponent[c, first + y])
                now = 1 - now
            for r in range(rows):
                highest[y, r] = maxima[now, r]
                out[place + y, r] = 0.0
        # two chunks at a time halve the passes over out; the last of an odd number is its own partner, counted once
        for c in range(lowest_chunk, chunks, 2):
            partner = min(c + 1, chunks - 1)
            chunk_product(mantissa, factors, c, first, count, source, part[0])
            if partner > c:
                chunk_product(mantissa, factors, partner, first, count, source, part[1])
            else:
                part[1] = 0.0
            for y in range(count):
                shift, partner_shift = exponent[c, first + y], exponent[partner, first + y]
                for r in range(rows):
                    scale = power_of_two(tops[c, r] + shift - highest[y, r])
                    partner_scale = power_of_two(tops[partner, r] + partner_shift - highest[y, r])
                    total = fma(part[0, y, r], scale, out[place + y, r])
                    out[place + y, r] = fma(part[1, y, r], partner_scale, total)
        for y in range(count):
            for r in range(rows):
                part[0, y, r] = out[place + y, r] if highest[y, r] > 0.5 * LOG_ZERO else 1.0
                maxima[0, r] = min(smallest[r], part[0, y, r])
            for r in range(rows):
                smallest[r] = maxima[0, r]
                value = highest[y, r] * LN2 + fast_log(part[0, y, r])
                out[place + y, r] = value if highest[y, r] > 0.5 * LOG_ZERO else LOG_ZERO
    return smallest


@compiled
def guarded_log_matmul(a, coarse, coarse_exponent, fine, fine_exponent, source, target, out):
    """``log_matmul`` with long chunks, which are fast; columns that underflow are computed again with short ones."""
    smallest = log_matmul(a, coarse, coarse_exponent, source, target, out)
    lost = np.flatnonzero(~(smallest > SAFE))
    if lost.size:
        selected = np.zeros((a.shape[0], padded(lost.size)))
        result = np.empty((out.shape[0], selected.shape[1]))
        for k in range(a.shape[0]):
            for r in range(lost.size):
                selected[k, r] = a[k, lost[r]]
        log_matmul(selected, fine, fine_exponent, source, target, result)
        for y in range(out.shape[0]):
            for r in range(lost.size):
                out[y, lost[r]] = result[y, r]


@compiled
def box_size(box):
    """The number of points in the box ``(d, 2)``."""
    size = 1
    for axis in range(box.shape[0]):
        size *= box[axis, 1] - box[axis, 0]
    return size


@compiled
def index_in_box(coordinates, box):
    """Flat index in the box of the point with these ``coordinates (d,)`` on the grid."""
    place = 0
    for axis in range(box.shape[0]):
        place = place * (box[axis, 1] - box[axis, 0]) + coordinates[axis] - box[axis, 0]
    return place


@compiled
def log_product_apply(x, mantissas, exponents, source, target, result):
    """``result[g, y] = log sum_l exp(x[g, l] - k(l, y))`` for a few nodes g: one ``guarded_log_matmul`` for each axis.

    l runs over the box ``source (d, 2)`` and y over ``target``: ``x (g, size of source)``, ``result (g, size of
    target)``. ``mantissas``, ``exponents``: coarse tables of all axes, then fine ones. Each pass removes the last axis
    and puts the result axis in front, so the axes end in their order, with g last.
    """
    axes = len(mantissas) // 2
    current = x
    used = x.shape[1]
    for k in range(axes - 1, -1, -1):
        n_in = source[k, 1] - source[k, 0]
        per_row = used // n_in
        rows = current.shape[0] * per_row
        a = np.zeros((n_in, padded(rows)))
        for y in range(current.shape[0]):
            for q in range(n_in):
                for r in range(per_row):
                    a[q, y * per_row + r] = current[y, r * n_in + q]
        out = np.empty((target[k, 1] - target[k, 0], a.shape[1]))
        guarded_log_matmul(
            a, mantissas[k], exponents[k], mantissas[axes + k], exponents[axes + k],
            (source[k, 0], source[k, 1]), (target[k, 0], target[k, 1]), out,
        )  # fmt: skip
        current = out
        used = rows
    nodes = x.shape[0]
    per_row = used // nodes
    for y in range(current.shape[0]):
        for r in range(per_row):
            for g in range(nodes):
                result[g, y * per_row + r] = current[y, r * nodes + g]


@compiled_parallel
def safe_nodes(
    x, rows, nodes, offsets, coordinates, weight, boxes, group,
    forward, forward_exponents, backward, backward_exponents, whole, value, log_p, sums, first,
):  # fmt: skip
    """Values and log-gradients of the listed rows of ``x (b, n)``, safe from underflow, ``group`` at a time.

    If ``sums`` is not empty, row i only stores its ``log Z`` at the atoms in ``sums[first[i]:]``.
    """
    count = rows.size
    for t in numba.prange((count + group - 1) // group):
        group_rows = rows[t * group : min(count, (t + 1) * group)]
        # the smallest box that contains the atoms of all these nodes
        box = boxes[nodes[group_rows[0]]].copy()
        for g in range(1, group_rows.size):
            for axis in range(box.shape[0]):
                box[axis, 0] = min(box[axis, 0], boxes[nodes[group_rows[g]], axis, 0])
                box[axis, 1] = max(box[axis, 1], boxes[nodes[group_rows[g]], axis, 1])
        part, log_s = np.empty((group_rows.size, x.shape[1])), np.empty((group_rows.size, x.shape[1]))
        source = np.empty((group_rows.size, box_size(box)))
        for g in range(group_rows.size):
            part[g] = x[group_rows[g]]
        log_product_apply(part, forward, forward_exponents, whole, box, source)
        for g in range(group_rows.size):
            line = source[g]
            start, stop = offsets[nodes[group_rows[g]]], offsets[nodes[group_rows[g]] + 1]
            kept, place = np.empty(stop - start), np.empty(stop - start, np.intp)
            for k in range(start, stop):
                place[k - start] = index_in_box(coordinates[k], box)
                kept[k - start] = line[place[k - start]]
            value[group_rows[g]] = dot(weight[start:stop], kept)
            if sums.size:
                sums[first[group_rows[g]] : first[group_rows[g]] + stop - start] = kept
            else:
                line[:] = LOG_ZERO
                for k in range(start, stop):
                    line[place[k - start]] = fast_log(weight[k]) - kept[k - start]
        if sums.size == 0:
            log_product_apply(source, backward, backward_exponents, box, whole, log_s)
            for g in range(group_rows.size):
                out = log_p[group_rows[g]]
                for k in range(out.size):
                    out[k] = part[g, k] + log_s[g, k]


@compiled_parallel
def fast_nodes(
    x, nodes, offsets, position, padded_position, weight, first, others, backward_first, backward_others, boxes, whole,
    scratch, value, log_p, ok,
):  # fmt: skip
    """``fast_node`` for a batch ``x (b, n)``; ``ok (b,)``: which rows passed the check."""
    real = first.dtype
    for row in numba.prange(x.shape[0]):
        buffers = (
            np.empty(scratch[0], real), np.empty(scratch[1], real),
            np.empty(scratch[1], real), np.empty(scratch[2], real),
        )  # fmt: skip
        start, stop = offsets[nodes[row]], offsets[nodes[row] + 1]
        ok[row], value[row] = fast_node(
            x[row], position[start:stop], padded_position[start:stop], weight[start:stop],
            first, others, backward_first, backward_others, boxes[nodes[row]], whole, log_p[row], buffers,
        )  # fmt: skip
