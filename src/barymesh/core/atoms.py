"""Compiled kernels for measures given by weighted atoms: samples, quadratures, histograms on their own points.

For one node with potential ``lam``, atoms ``y_k`` of weight ``w_k`` and x = lam / reg:

    log Z_k  = log sum_l exp(x_l - c(z_l, y_k)/reg)
    value    = sum_k w_k log Z_k
    p_l      = sum_k w_k exp(x_l - c(z_l, y_k)/reg - log Z_k)

One exponential for each pair. All terms are shifted by the largest one of their sum, so nothing overflows, and a sum is
never zero. Where ``p_l`` itself is too small for ordinary arithmetic, its logarithm is computed by a second pass, which
shifts over the atoms instead.

Atom k is at point ``index[k]`` of a table. The cost is either squared Euclidean, computed on the fly from ``support_t
(d, n)`` and the table ``atoms (U, d)``, or given as rows ``cost (U, n)``; the other one is empty. Both are already
divided by reg (points by its square root). The kernels compute in the precision of their arrays.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.core.vector_math import fast_exp, fast_log, fma
from barymesh.core.vector_sums import sum_of

# below this p_l is computed again in the log domain; SMALL_32 for float32
SMALL_64, SMALL_32 = 1e-280, 1e-30
# a larger sum shows that the shift was far too low; larger exponents are clipped
HUGE_64, HUGE_32 = 1e200, 1e25
CEILING_64, CEILING_32 = 600.0, 80.0


@compiled_inline
def exponents(x, support_t, atoms, cost, k, axes, out):
    """``out_l = x_l - c(z_l, y)`` for point k of the table; a squared cost over its first ``axes`` coordinates only."""
    if cost.size:
        for j in range(x.size):
            out[j] = x[j] - cost[k, j]
    else:
        for j in range(x.size):
            gap = support_t[0, j] - atoms[k, 0]
            out[j] = fma(-gap, gap, x[j])
        for axis in range(1, axes):
            for j in range(x.size):
                gap = support_t[axis, j] - atoms[k, axis]
                out[j] = fma(-gap, gap, out[j])


@compiled_inline
def exponent_at(x, support_t, atoms, cost, k, j):
    """``x_j - c(z_j, y)`` for point k of the table and one support point j."""
    if cost.size:
        return x[j] - cost[k, j]
    total = x[j]
    for axis in range(atoms.shape[1]):
        gap = support_t[axis, j] - atoms[k, axis]
        total = fma(-gap, gap, total)
    return total


@compiled_inline
def shifted_terms(x, support_t, atoms, cost, k, shift, ceiling, out):
    """``out_l = exp(x_l - c(z_l, y) - shift)`` in one pass; returns the sum. Exponents are clipped at ``ceiling``."""
    last = atoms.shape[1] - 1
    if cost.size:
        for j in range(x.size):
            out[j] = fast_exp(min(x[j] - cost[k, j] - shift, ceiling))
    else:
        exponents(x, support_t, atoms, cost, k, last, out)
        for j in range(x.size):
            gap = support_t[last, j] - atoms[k, last]
            out[j] = fast_exp(min(fma(-gap, gap, out[j]) - shift, ceiling))
    return sum_of(out)


@compiled
def terms_on_line(x, line, y, shift, ceiling, out):
    """``shifted_terms`` for a squared cost on the ``line (n,)``: a function of its own, which LLVM compiles to faster
    code."""
    for j in range(x.size):
        gap = line[j] - y
        out[j] = fast_exp(min(fma(-gap, gap, x[j]) - shift, ceiling))
    return sum_of(out)


@compiled
def add_scaled(factor, terms, out):
    """``out += factor terms``."""
    for j in range(out.size):
        out[j] = fma(factor, terms[j], out[j])


@compiled_inline
def exact_terms(x, support_t, atoms, cost, k, out):
    """``out_l = exp(x_l - c(z_l, y) - top)``, shifted by the largest exponent; returns ``(sum, top, its index)``."""
    exponents(x, support_t, atoms, cost, k, atoms.shape[1], out)
    top_index = 0
    for j in range(1, x.size):
        if out[j] > out[top_index]:
            top_index = j
    top = out[top_index]
    for j in range(x.size):
        out[j] = fast_exp(out[j] - top)
    return sum_of(out), top, top_index


@compiled
def add_atoms(x, support_t, atoms, cost, index, weight, start, stop, terms, p, shifts, totals):
    """Add ``w_k exp(x - c_k) / Z_k`` to ``p (n,)`` for the atoms k from ``start`` to ``stop``, the first of them with
    ``Z = totals[0] exp(shifts[0])``.

    The exponents of an atom are shifted by the one at the index where an earlier atom had its largest, which saves the
    pass for the maximum: the sum is then at least 1. Where it is huge, the shift was bad, and the maximum is computed.
    """
    huge, ceiling = (HUGE_64, CEILING_64) if x.itemsize == 8 else (HUGE_32, CEILING_32)
    ceiling, top_index = x[0] * 0 + ceiling, 0
    for k in range(start, stop):
        shift = exponent_at(x, support_t, atoms, cost, index[k], top_index)
        total = shifted_terms(x, support_t, atoms, cost, index[k], shift, ceiling, terms)
        if not total < huge:
            total, shift, top_index = exact_terms(x, support_t, atoms, cost, index[k], terms)
        add_scaled(weight[k] / total, terms, p)
        shifts[k - start], totals[k - start] = shift, total


@compiled
def add_atoms_on_line(x, support_t, atoms, cost, index, weight, start, stop, terms, p, shifts, totals):
    """``add_atoms`` for a squared cost in one dimension."""
    huge, ceiling = (HUGE_64, CEILING_64) if x.itemsize == 8 else (HUGE_32, CEILING_32)
    ceiling, top_index, line = x[0] * 0 + ceiling, 0, support_t[0]
    for k in range(start, stop):
        y = atoms[index[k], 0]
        shift = fma(-(line[top_index] - y), line[top_index] - y, x[top_index])
        total = terms_on_line(x, line, y, shift, ceiling, terms)
        if not total < huge:
            total, shift, top_index = exact_terms(x, support_t, atoms, cost, index[k], terms)
        add_scaled(weight[k] / total, terms, p)
        shifts[k - start], totals[k - start] = shift, total


@compiled
def node(lam, scale, support_t, atoms, cost, index, weight, start, stop, p, log_p):
    """One node at ``x = scale * lam``: fills ``p (n,)``, and ``log_p (n,)`` unless it is empty; returns the value."""
    x, terms = scale * lam, np.empty_like(lam)
    log_z, totals = np.empty(stop - start), np.empty(stop - start)
    p[:] = 0
    if cost.size == 0 and atoms.shape[1] == 1:
        add_atoms_on_line(x, support_t, atoms, cost, index, weight, start, stop, terms, p, log_z, totals)
    else:
        add_atoms(x, support_t, atoms, cost, index, weight, start, stop, terms, p, log_z, totals)
    for k in range(stop - start):
        log_z[k] += fast_log(totals[k])
    value = 0.0
    for k in range(stop - start):
        value += weight[start + k] * log_z[k]
    if log_p.size:
        lowest = p[0]
        for j in range(x.size):
            lowest = min(lowest, p[j])
        if lowest > (SMALL_64 if x.itemsize == 8 else SMALL_32):
            for j in range(x.size):
                log_p[j] = fast_log(np.float64(p[j]))
        else:
            log_gradient(x, support_t, atoms, cost, index, weight, start, stop, log_z, terms, log_p)
    return value


@compiled
def log_gradient(x, support_t, atoms, cost, index, weight, start, stop, log_z, terms, log_p):
    """``log p_l = log sum_k w_k exp(x_l - c_lk - log Z_k)``, shifted by the largest term over the atoms k."""
    top = np.full(x.size, -1e300)
    total = np.zeros(x.size)
    for k in range(start, stop):
        exponents(x, support_t, atoms, cost, index[k], atoms.shape[1], terms)
        shift = np.log(weight[k]) - log_z[k - start]
        for j in range(x.size):
            top[j] = max(top[j], terms[j] + shift)
    for k in range(start, stop):
        exponents(x, support_t, atoms, cost, index[k], atoms.shape[1], terms)
        shift = np.log(weight[k]) - log_z[k - start]
        for j in range(x.size):
            total[j] += fast_exp(terms[j] + shift - top[j])
    for j in range(x.size):
        log_p[j] = top[j] + fast_log(total[j])


@compiled
def nodes_serial(lam, scale, support_t, atoms, cost, index, weight, start, stop, value, p, log_p):
    """``node`` for a batch ``lam (b, n)`` whose row i has the atoms ``start[i]:stop[i]``."""
    for i in range(lam.shape[0]):
        value[i] = node(lam[i], scale, support_t, atoms, cost, index, weight, start[i], stop[i], p[i], log_p[i])


@compiled_parallel
def nodes_parallel(lam, scale, support_t, atoms, cost, index, weight, start, stop, value, p, log_p):
    """``nodes_serial`` on all cores."""
    for i in numba.prange(lam.shape[0]):
        value[i] = node(lam[i], scale, support_t, atoms, cost, index, weight, start[i], stop[i], p[i], log_p[i])


@compiled_parallel
def log_sums_over_support(x, support_t, atoms, cost, index, start, stop, first, out):
    """``log Z_k`` of every atom: row i of ``x (b, n)`` fills ``out[first[i] : first[i] + stop[i] - start[i]]``."""
    for i in numba.prange(x.shape[0]):
        terms = np.empty_like(x[i])
        for k in range(start[i], stop[i]):
            total, top, _ = exact_terms(x[i], support_t, atoms, cost, index[k], terms)
            out[first[i] + k - start[i]] = top + np.log(total)
