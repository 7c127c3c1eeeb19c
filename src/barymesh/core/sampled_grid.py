"""Mini-batch gradients on a grid in two or more dimensions with the squared cost: exponentials along the axes only.

There ``exp(x_z - |z - y|^2) = E_z k(z, y)``, where ``E = exp(x - max x)`` is the same for all draws y and k is a
product over the axes. The units are such that reg is 1. A grid is treated as a matrix ``rows x columns``: its first
axis, and all others.

Underflow is detected: if the sum over all points is representable, so is every term that matters. Where it is not, the
draw is computed again as in core/atoms.py.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core import atoms as atom_kernels
from barymesh.core.compiling import compiled, compiled_parallel
from barymesh.core.matmul import matmul
from barymesh.core.sampled import draw
from barymesh.core.vector_math import fast_exp, fma
from barymesh.core.vector_sums import dot

TOO_SMALL = 1e-280
# rows are padded to a multiple of these: the rest would be computed one by one
LANES = 16
# draws whose sums are computed together
DRAWS_AT_ONCE = 24


@compiled
def along_axis(y, axis, n, out):
    """``out_j``, proportional to ``exp(-(z_j - y)^2)`` for the ``n`` points ``z`` of an axis, 1 for the nearest; 0 in
    the padding. The points are evenly spaced; the size of ``axis`` and ``out`` is a multiple of LANES."""
    spacing = axis[min(1, n - 1)] - axis[0]
    place = (y - axis[0]) / spacing if spacing > 0.0 else 0.0
    nearest = axis[np.int64(min(max(place + 0.5, 0.0), n - 1.0))] - y
    top = nearest * nearest
    for j in range(out.size):
        gap = axis[j] - y
        out[j] = fast_exp(top - gap * gap)
    for j in range(n, out.size):
        out[j] = 0.0


@compiled
def along_others(point, axes, shape, part, products, out):
    """The product of ``along_axis`` over all axes but the first, in C order, padded with zeros: ``out (padded,)``."""
    last = shape.size - 1
    size = shape[last]
    along_axis(point[last], axes[last], size, part)
    out[:] = 0.0
    for k in range(size):
        out[k] = part[k]
    for a in range(last - 1, 0, -1):
        along_axis(point[a], axes[a], shape[a], part)
        for j in range(shape[a]):
            for k in range(size):
                products[j * size + k] = part[j] * out[k]
        size *= shape[a]
        for k in range(size):
            out[k] = products[k]


@compiled
def exponentials(lam, scale, x, e, shared):
    """``x = scale lam`` and ``shared (rows, padded) = exp(x - max x)``; ``e (n,)`` is scratch memory."""
    for j in range(x.size):
        x[j] = scale * lam[j]
    top = x[0]
    for j in range(x.size):
        top = max(top, x[j])
    for j in range(x.size):
        e[j] = fast_exp(x[j] - top)
    columns = x.size // shared.shape[0]
    for r in range(shared.shape[0]):
        for k in range(columns):
            shared[r, k] = e[r * columns + k]


@compiled
def product(factor, sums, shared, p):
    """``p (n,) = factor sums * shared``, both ``(rows, padded)``."""
    columns = p.size // shared.shape[0]
    for r in range(shared.shape[0]):
        for k in range(columns):
            p[r * columns + k] = factor * sums[r, k] * shared[r, k]


@compiled
def nodes_between(begin, end, lam, scale, support_t, axes, shape, seed, nodes, activations, starts, tables, p):
    """``drawn_gradients`` for the rows ``begin`` to ``end``.

    For a few draws at a time, with their factors along the first axis in ``row (draws, rows)`` and along the others in
    ``column (draws, columns)``, both sums are matrix products: ``total = sum((row @ E) * column)`` over the columns,
    and ``sums = (row / total)' @ column``.
    """
    first_of, last_of, cumulative, centres, root, roots = tables
    n, rows, most = lam.shape[1], shape[0], 1
    columns = n // rows
    for i in range(begin, end):
        most = max(most, starts[i + 1] - starts[i])
    padded = -(-columns // LANES) * LANES
    part, products = np.empty(axes.shape[1]), np.empty(columns)
    row, shares = np.empty((DRAWS_AT_ONCE, axes.shape[1])), np.empty((rows, DRAWS_AT_ONCE))
    column, partial = np.zeros((DRAWS_AT_ONCE, padded)), np.zeros((DRAWS_AT_ONCE, padded))
    shared, part_sums, sums = np.zeros((rows, padded)), np.zeros((rows, padded)), np.zeros((rows, padded))
    x, terms, no_cost = np.empty(n), np.empty(n), np.empty((0, n))
    buffer, missed = np.empty((most, centres.shape[1])), np.empty(most, np.int64)
    for i in range(begin, end):
        node, count, misses = nodes[i], starts[i + 1] - starts[i], 0
        points = buffer[:count]
        draw(seed, node, activations[i], first_of[node], last_of[node], cumulative, centres, root, roots, points)
        exponentials(lam[i], scale, x, terms, shared)
        for start in range(0, count, DRAWS_AT_ONCE):
            draws = min(DRAWS_AT_ONCE, count - start)
            for s in range(draws):
                along_axis(points[start + s, 0], axes[0], rows, row[s])
                along_others(points[start + s], axes, shape, part, products, column[s])
            matmul(row, shared, partial, (0, draws), (0, columns), (0, rows))
            for s in range(draws):
                total = dot(partial[s], column[s])
                share = 0.0
                if total > TOO_SMALL:
                    share = 1.0 / total
                else:
                    missed[misses] = start + s
                    misses += 1
                for r in range(rows):
                    shares[r, s] = share * row[s, r]
            matmul(shares, column, sums if start == 0 else part_sums, (0, rows), (0, columns), (0, draws))
            if start > 0:
                sums += part_sums
        product(1.0 / count, sums, shared, p[i])
        # draws whose whole mass is where x is far below its largest value
        for s in missed[:misses]:
            total, _, _ = atom_kernels.exact_terms(x, support_t, points, no_cost, s, terms)
            for j in range(n):
                p[i, j] = fma(1.0 / (total * count), terms[j], p[i, j])


@compiled_parallel
def drawn_gradients(shares, lam, scale, support_t, axes, shape, seed, nodes, activations, starts, tables, p):
    """``drawn_gradients`` of core/sampled.py, on a grid: ``axes[a, :shape[a]]`` are the coordinates along
    axis a; ``axes`` has a multiple of LANES columns."""
    for share in numba.prange(shares):
        begin, end = share * nodes.size // shares, (share + 1) * nodes.size // shares
        nodes_between(begin, end, lam, scale, support_t, axes, shape, seed, nodes, activations, starts, tables, p)
