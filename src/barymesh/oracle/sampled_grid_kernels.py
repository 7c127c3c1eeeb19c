"""Mini-batch gradients on a grid in two or more dimensions with the squared cost: exponentials along the axes only.

There ``exp(x_z - |z - y|^2) = E_z k(z, y)`` with ``E = exp(x - max x)``, which all draws y share, and k a product over
the axes. Everything is in units in which reg is 1. A grid is seen as ``rows x columns``: its first axis, and all
others.

Nothing is lost to underflow unnoticed: if the sum over all points is representable, so is every term that counts. Where
it is not, that draw is done again by atom_kernels.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.compiling import compiled, compiled_parallel
from barymesh.oracle import atom_kernels
from barymesh.oracle.sampled_kernels import draw
from barymesh.oracle.vector_math import fast_exp, fma
from barymesh.oracle.vector_sums import dot

TOO_SMALL = 1e-280
# rows have a whole number of these: what is left over would be taken one by one
LANES = 16


@compiled
def along_axis(y, axis, n, out):
    """``out_j``, proportional to ``exp(-(z_j - y)^2)`` for the ``n`` points ``z`` of an axis, 1 for the nearest, and 0
    from there on. ``axis`` and ``out`` have a whole number of LANES."""
    nearest = axis[0] - y
    for j in range(n):
        gap = axis[j] - y
        nearest = gap if abs(gap) < abs(nearest) else nearest
    top = nearest * nearest
    for j in range(out.size):
        gap = axis[j] - y
        out[j] = fast_exp(top - gap * gap)
    for j in range(n, out.size):
        out[j] = 0.0


@compiled
def weighted_rows(weights, rows, out):
    """``out_k = sum_r weights_r rows[r, k]``."""
    out[:] = 0.0
    for r in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            out[k] = fma(weights[r], rows[r, k], out[k])


@compiled
def add_outer(factor, a, b, out):
    """``out[r, k] += factor a_r b_k``."""
    for r in range(out.shape[0]):
        scale = factor * a[r]
        for k in range(out.shape[1]):
            out[r, k] = fma(scale, b[k], out[r, k])


@compiled
def along_others(point, axes, shape, part, products, out):
    """The product over all axes but the first of ``along_axis``, in C order, then zeros: ``out (padded,)``."""
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
def nodes_between(begin, end, lam, scale, support_t, axes, shape, seed, nodes, activations, starts, tables, p):
    """``drawn_gradients`` for the rows ``begin`` to ``end``."""
    first_of, last_of, cumulative, centres, root, roots = tables
    n, rows, most = lam.shape[1], shape[0], 1
    columns = n // rows
    for i in range(begin, end):
        most = max(most, starts[i + 1] - starts[i])
    padded = -(-columns // LANES) * LANES
    row, part, products = np.empty(axes.shape[1]), np.empty(axes.shape[1]), np.empty(columns)
    column, partial = np.empty(padded), np.empty(padded)
    shared, sums = np.zeros((rows, padded)), np.empty((rows, padded))
    x, terms, no_cost = np.empty(n), np.empty(n), np.empty((0, n))
    room, missed = np.empty((most, centres.shape[1])), np.empty(most, np.int64)
    for i in range(begin, end):
        who, count, misses = nodes[i], starts[i + 1] - starts[i], 0
        points = room[:count]
        draw(seed, who, activations[i], first_of[who], last_of[who], cumulative, centres, root, roots, points)
        top = scale * lam[i, 0]
        for j in range(n):
            x[j] = scale * lam[i, j]
            top = max(top, x[j])
        for j in range(n):
            terms[j] = fast_exp(x[j] - top)
        for r in range(rows):
            shared[r, :columns] = terms[r * columns : (r + 1) * columns]
        sums[:] = 0.0
        for s in range(count):
            along_axis(points[s, 0], axes[0], rows, row)
            along_others(points[s], axes, shape, part, products, column)
            weighted_rows(row, shared, partial)
            total = dot(partial, column)
            if total > TOO_SMALL:
                add_outer(1.0 / total, row, column, sums)
            else:
                missed[misses] = s
                misses += 1
        for r in range(rows):
            for k in range(columns):
                p[i, r * columns + k] = sums[r, k] * shared[r, k]
        # draws all of whose mass is where x is far below its largest value
        for s in missed[:misses]:
            total, _, _ = atom_kernels.exact_terms(x, support_t, points, no_cost, s, terms)
            for j in range(n):
                p[i, j] = fma(1.0 / total, terms[j], p[i, j])
        for j in range(n):
            p[i, j] *= 1.0 / count


@compiled_parallel
def drawn_gradients(shares, lam, scale, support_t, axes, shape, seed, nodes, activations, starts, tables, p):
    """What ``sampled_kernels.drawn_gradients`` computes, on a grid: ``axes[a, :shape[a]]`` are the coordinates along
    axis a; ``axes`` has a whole number of LANES columns."""
    for share in numba.prange(shares):
        begin, end = share * nodes.size // shares, (share + 1) * nodes.size // shares
        nodes_between(begin, end, lam, scale, support_t, axes, shape, seed, nodes, activations, starts, tables, p)
