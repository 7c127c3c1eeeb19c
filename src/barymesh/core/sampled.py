"""Compiled kernels for mini-batch gradients: draw from every node's measure, then average the softmax over the draws.

A measure that can be drawn here is a weighted list of components: node i has ``first[i]:last[i]``, chosen by the
cumulative weights in ``cumulative``. Component c is the point ``centres[c] (d,)``, plus ``roots[root[c]] @ z`` with
standard normal z where ``root[c] >= 0``. Discrete measures, Gaussians and their mixtures are of this kind.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core import atoms as atom_kernels
from barymesh.core.compiling import compiled, compiled_parallel
from barymesh.core.counter_random import CHOICES, NORMALS, normals, random_bits, random_stream, unit


@compiled
def draw(seed, node, activation, first, last, cumulative, centres, root, roots, out):
    """Fill ``out (M, d)`` with independent draws that depend on (seed, node, activation) alone."""
    count, d = out.shape
    any_normal = False
    for c in range(first, last):
        if root[c] >= 0:
            any_normal = True
            break
    if any_normal:
        normals(random_stream(seed, NORMALS, node, activation), out.ravel())
    choices = random_stream(seed, CHOICES, node, activation)
    for k in range(count):
        low, high = first, last - 1
        if low < high:
            level = unit(random_bits(choices, k)) * cumulative[high]
            while low < high:
                middle = (low + high) // 2
                if cumulative[middle] < level:
                    low = middle + 1
                else:
                    high = middle
        if root[low] >= 0:
            matrix = roots[root[low]]
            # from the last axis down, because axis a needs the z of the axes before it: the roots are triangular
            for a in range(d - 1, -1, -1):
                total = centres[low, a]
                for b in range(a + 1):
                    total += matrix[a, b] * out[k, b]
                out[k, a] = total
        else:
            for a in range(d):
                out[k, a] = centres[low, a]


@compiled_parallel
def draw_nodes(seed, nodes, activations, starts, first, last, cumulative, centres, root, roots, points):
    """``draw`` for a batch: row i fills ``points[starts[i]:starts[i + 1]]``, unless its measure has no components."""
    for i in numba.prange(nodes.size):
        node = nodes[i]
        if last[node] > first[node]:
            draw(
                seed, node, activations[i], first[node], last[node], cumulative, centres, root, roots,
                points[starts[i] : starts[i + 1]],
            )  # fmt: skip


@compiled_parallel
def gradients(lam, scale, support_t, points, cost, starts, p):
    """``p[i] = mean over the draws y in starts[i]:starts[i+1] of softmax(scale lam[i] - c(z, y)/reg)``.

    For the squared cost, ``points (draws, d)`` are the draws divided by sqrt(reg); for others, ``cost (draws, n)`` are
    their costs divided by reg. The other one is empty.
    """
    index, ones, nothing = np.arange(starts[-1]), np.ones(starts[-1]), np.empty(0)
    for i in numba.prange(lam.shape[0]):
        atom_kernels.node(lam[i], scale, support_t, points, cost, index, ones, starts[i], starts[i + 1], p[i], nothing)
        for k in range(lam.shape[1]):
            p[i, k] /= starts[i + 1] - starts[i]


@compiled
def drawn_between(
    begin, end, lam, scale, support_t, seed, nodes, activations, starts, first, last, cumulative, centres, root, roots,
    p,
):  # fmt: skip
    """``drawn_gradients`` for the rows ``begin`` to ``end``; memory is allocated once for all of them."""
    no_cost, n, most = np.empty((0, support_t.shape[1])), lam.shape[1], 1
    for i in range(begin, end):
        most = max(most, starts[i + 1] - starts[i])
    buffer, x, terms = np.empty((most, centres.shape[1])), np.empty(n), np.empty(n)
    index, ones, shifts, totals = np.arange(most), np.ones(most), np.empty(most), np.empty(most)
    for i in range(begin, end):
        node, count = nodes[i], starts[i + 1] - starts[i]
        points = buffer[:count]
        draw(seed, node, activations[i], first[node], last[node], cumulative, centres, root, roots, points)
        for j in range(n):
            x[j] = scale * lam[i, j]
        out = p[i]
        out[:] = 0.0
        # as in core/atoms.py, without the values
        if centres.shape[1] == 1:
            atom_kernels.add_atoms_on_line(
                x, support_t, points, no_cost, index, ones, 0, count, terms, out, shifts, totals
            )
        else:
            atom_kernels.add_atoms(x, support_t, points, no_cost, index, ones, 0, count, terms, out, shifts, totals)
        share = 1.0 / count
        for j in range(n):
            out[j] *= share


@compiled_parallel
def drawn_gradients(
    shares, lam, scale, support_t, seed, nodes, activations, starts, first, last, cumulative, centres, root, roots, p,
):  # fmt: skip
    """``draw_nodes`` and ``gradients`` in one pass, for the squared cost; centres and roots are divided by
    sqrt(reg)."""
    for share in numba.prange(shares):
        begin, end = share * nodes.size // shares, (share + 1) * nodes.size // shares
        drawn_between(
            begin, end, lam, scale, support_t, seed, nodes, activations, starts, first, last, cumulative, centres,
            root, roots, p,
        )  # fmt: skip
