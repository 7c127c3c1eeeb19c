"""Compiled kernels for measures on a regular grid with a cost that adds up over the axes.

There ``exp(-c(z, y)/reg)`` is a product of one small matrix per axis, so the two sums of the oracle

    Z(y)      = sum_l exp(x_l) K(l, y)                 x = lam / reg
    log p_l   = x_l + log sum_y K(l, y) mu(y) / Z(y)

cost one small matrix product an axis instead of one exponential a pair. ``fast_nodes`` does just that and checks every
node for underflow. For nodes that fail the check there is ``log_products``, which keeps an exponent beside every block
of numbers (block floating point) and so cannot underflow.

Shapes: a node's potential is ``(n,) = (n_0 ... n_{d-1})`` flattened in C order; its atoms are listed by their flat
position on the atom grid ``(N_0 ... N_{d-1})``.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.compiling import compiled, compiled_parallel
from barymesh.oracle.matmul import matmul, padded
from barymesh.oracle.vector_math import FLAGS, fast_exp, fast_log

# below this a sum of products may have lost terms that matter; see the guard in fast_node
TINY_64, TINY_32 = 1e-290, 1e-30
# stands for log 0: finite, so that fastmath may assume there are no infinities
NO_MASS = -1e12
# a sum in block floating point above this has lost nothing
SAFE = 2.0**-900
# rows of the result worked on together; the matrix product likes six
BAND = 6
LN2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
BIG = 6755399441055744.0


@compiled
def product_apply(source, target, spare, first, others):
    """Multiply the array ``source`` by one matrix along every axis; the result is left in ``target``.

    ``first``: ``(n_last, padded N_last)``, zero in the padding; ``others``: ``(N_a, n_a)`` for the axes before the
    last. ``source (prod n)``; ``target`` and ``spare`` hold the largest intermediate, last axis padded.
    """
    rows = source.size // first.shape[0]
    width = first.shape[1]
    size = rows * width
    current, following = (target, spare) if len(others) % 2 == 0 else (spare, target)
    matmul(source.reshape(rows, first.shape[0]), first, current[:size].reshape(rows, width))
    post = width
    pre = rows
    for k in range(len(others) - 1, -1, -1):
        matrix = others[k]
        n_out, n_in = matrix.shape
        pre //= n_in
        for p in range(pre):
            block = current[p * n_in * post : (p + 1) * n_in * post].reshape(n_in, post)
            out = following[p * n_out * post : (p + 1) * n_out * post].reshape(n_out, post)
            matmul(matrix, block, out)
        post *= n_out
        current, following = following, current


@compiled
def fast_node(x, position, padded_position, weight, first, others, back_first, back_others, log_p, buffers):
    """One node in ordinary arithmetic. Returns ``(ok, log-sum-exp value)`` and fills ``log_p (n,)``.

    ``kernel`` and ``adjoint`` are ``(first, others)`` towards the atoms and back. The guard: a term lost to underflow
    is below 1e-307, so a sum above TINY_64 has (float32: TINY_32) lost nothing that its 53 bits could show.
    """
    e, z, spare, q = buffers
    n, atoms = x.size, position.size
    tiny = TINY_64 if e.itemsize == 8 else TINY_32
    highest = x[0]
    for k in range(n):
        highest = max(highest, x[k])
    for k in range(n):
        e[k] = fast_exp(x[k] - highest)
    product_apply(e[:n], z, spare, first, others)
    z_atoms = spare[:atoms]
    for k in range(atoms):
        z_atoms[k] = z[padded_position[k]]
    lowest = z_atoms[0]
    for k in range(atoms):
        lowest = min(lowest, z_atoms[k])
    if not lowest > tiny:
        return False, 0.0
    total = 0.0
    for k in range(atoms):
        total += weight[k] * fast_log(np.float64(z_atoms[k]))
    largest = 0.0
    for k in range(atoms):
        z_atoms[k] = weight[k] / z_atoms[k]
        largest = max(largest, z_atoms[k])
    q[:] = 0.0
    for k in range(atoms):
        q[position[k]] = z_atoms[k]
    product_apply(q, z, spare, back_first, back_others)
    width_in, width_out = back_first.shape[1], first.shape[0]
    rows = n // width_out
    lowest = largest
    for r in range(rows):
        line = z[r * width_in : r * width_in + width_out]
        part = e[r * width_out : (r + 1) * width_out]
        for k in range(width_out):
            part[k] = line[k]
            lowest = min(lowest, line[k])
    # a kernel entry below 1e-307 may have met a factor as large as `largest`
    if not lowest > tiny * max(largest, 1.0):
        return False, 0.0
    for k in range(n):
        log_p[k] = x[k] - highest + fast_log(np.float64(e[k]))
    return True, total + highest


@numba.njit(fastmath=FLAGS, error_model="numpy", cache=True, inline="always")
def power_of_two(k):
    """``2^k`` for a whole number ``-1023 < k <= 1023`` held in a float; 0 below."""
    bits = np.float64(max(k, -1023.0) + BIG).view(np.int64)
    return np.int64((bits + np.int64(1023)) << np.int64(52)).view(np.float64)


@compiled
def log_matmul(a, mantissa, exponent, out):
    """``out[y, r] = log sum_l exp(a[l, r] - k[l, y])`` in block floating point; returns ``smallest (rows,)``.

    ``exp(-k)`` is given in blocks of ``chunk`` neighbouring l: ``mantissa (chunks, N, chunk)`` in (0, 1], times
    ``2^exponent (chunks, N)``. The input gets an exponent for each chunk and r likewise. Inside a chunk the sum is an
    ordinary matrix product; the chunks are added with their exponents, which are whole numbers and cost no exponential.
    ``a (n, rows)``, ``out (N, rows)``, rows a multiple of LANES; NO_MASS stands for log 0.

    What lies 2^-1022 below the highest exponent is dropped, so column r is exact to rounding if its ``smallest[r]``,
    the least sum relative to that exponent, is above SAFE.
    """
    n, rows = a.shape
    chunks, n_out, chunk = mantissa.shape
    tops = np.empty((chunks, rows))
    factors = np.empty((chunks, chunk, rows))
    smallest = np.ones(rows)
    for c in range(chunks):
        top, length = tops[c], min(n, (c + 1) * chunk) - c * chunk
        top[:] = NO_MASS
        for k in range(length):
            line = a[c * chunk + k]
            for r in range(rows):
                top[r] = max(top[r], line[r])
        for r in range(rows):
            top[r] = np.ceil(top[r] * LOG2_E)
        for k in range(length):
            line, factor = a[c * chunk + k], factors[c, k]
            for r in range(rows):
                factor[r] = fast_exp(line[r] - top[r] * LN2)
        factors[c, length:] = 0.0
    # a few y at a time, so that all that belongs to them stays in the fastest cache
    part, highest = np.empty((BAND, rows)), np.empty((BAND, rows))
    for first in range(0, n_out, BAND):
        count = min(n_out - first, BAND)
        for y in range(count):
            high, total = highest[y], out[first + y]
            high[:] = 2.0 * NO_MASS
            total[:] = 0.0
            for c in range(chunks):
                top, shift = tops[c], exponent[c, first + y]
                for r in range(rows):
                    high[r] = max(high[r], top[r] + shift)
        for c in range(chunks):
            matmul(mantissa[c, first : first + count], factors[c], part[:count])
            top = tops[c]
            for y in range(count):
                addend, total, high, shift = part[y], out[first + y], highest[y], exponent[c, first + y]
                for r in range(rows):
                    total[r] += addend[r] * power_of_two(top[r] + shift - high[r])
        for y in range(count):
            total, high = out[first + y], highest[y]
            for r in range(rows):
                present = high[r] > 0.5 * NO_MASS
                smallest[r] = min(smallest[r], total[r] if present else 1.0)
                total[r] = high[r] * LN2 + fast_log(total[r]) if present else NO_MASS
    return smallest


@compiled
def guarded_log_matmul(a, coarse, coarse_exponent, fine, fine_exponent, out):
    """``log_matmul`` with long chunks, which are fast; columns that need them are done again with short ones."""
    smallest = log_matmul(a, coarse, coarse_exponent, out)
    lost = np.flatnonzero(~(smallest > SAFE))
    if lost.size:
        again = np.zeros((a.shape[0], padded(lost.size)))
        result = np.empty((out.shape[0], again.shape[1]))
        for k in range(a.shape[0]):
            for r in range(lost.size):
                again[k, r] = a[k, lost[r]]
        log_matmul(again, fine, fine_exponent, result)
        for y in range(out.shape[0]):
            for r in range(lost.size):
                out[y, lost[r]] = result[y, r]


@compiled
def log_product_apply(x, mantissas, exponents, shape, result):
    """``result[g, y] = log sum_l exp(x[g, l] - k(l, y))`` for a few nodes g: one ``guarded_log_matmul`` an axis.

    ``x (g, prod shape)``; ``mantissas``, ``exponents``: coarse tables of all axes, then fine ones. Each pass takes the
    last axis off and puts the result axis in front, so the axes end in their order, with g behind them.
    """
    axes = len(mantissas) // 2
    current = x
    used = x.shape[1]
    for k in range(axes - 1, -1, -1):
        n_in = shape[k]
        per_row = used // n_in
        rows = current.shape[0] * per_row
        a = np.zeros((n_in, padded(rows)))
        for y in range(current.shape[0]):
            for q in range(n_in):
                for r in range(per_row):
                    a[q, y * per_row + r] = current[y, r * n_in + q]
        out = np.empty((mantissas[k].shape[1], a.shape[1]))
        guarded_log_matmul(a, mantissas[k], exponents[k], mantissas[axes + k], exponents[axes + k], out)
        current = out
        used = rows
    nodes = x.shape[0]
    per_row = used // nodes
    for y in range(current.shape[0]):
        for r in range(per_row):
            for g in range(nodes):
                result[g, y * per_row + r] = current[y, r * nodes + g]


@compiled_parallel
def log_products(x, group, mantissas, exponents, shape, out):
    """``log_product_apply`` for a batch ``x (b, prod shape)`` into ``out (b, prod N)``, ``group`` nodes at a time."""
    count = x.shape[0]
    for t in numba.prange((count + group - 1) // group):
        start, stop = t * group, min(count, (t + 1) * group)
        log_product_apply(x[start:stop], mantissas, exponents, shape, out[start:stop])


@compiled_parallel
def turn_round(log_z, nodes, offsets, position, weight, value):
    """Between the two sums of the safe way: ``value = sum_y mu(y) log Z(y)``, and ``log_z <- log mu - log Z``."""
    for row in numba.prange(log_z.shape[0]):
        start, stop = offsets[nodes[row]], offsets[nodes[row] + 1]
        line = log_z[row]
        kept = np.empty(stop - start)
        total = 0.0
        for k in range(start, stop):
            z = line[position[k]]
            total += weight[k] * z
            kept[k - start] = fast_log(weight[k]) - z
        value[row] = total
        line[:] = NO_MASS
        for k in range(start, stop):
            line[position[k]] = kept[k - start]


@compiled_parallel
def fast_nodes(
    x,
    nodes,
    offsets,
    position,
    padded_position,
    weight,
    first,
    others,
    back_first,
    back_others,
    scratch,
    value,
    log_p,
    ok,
):
    """``fast_node`` for a batch ``x (b, n)``; ``ok (b,)`` tells which rows passed the guard."""
    for row in numba.prange(x.shape[0]):
        start, stop = offsets[nodes[row]], offsets[nodes[row] + 1]
        real = first.dtype
        buffers = (
            np.empty(scratch[0], real),
            np.empty(scratch[1], real),
            np.empty(scratch[1], real),
            np.empty(scratch[2], real),
        )
        ok[row], value[row] = fast_node(
            x[row],
            position[start:stop],
            padded_position[start:stop],
            weight[start:stop],
            first,
            others,
            back_first,
            back_others,
            log_p[row],
            buffers,
        )
