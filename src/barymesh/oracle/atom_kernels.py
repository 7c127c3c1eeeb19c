"""Compiled kernels for measures given by weighted atoms: samples, quadratures, histograms on points of their own.

For one node with potential ``lam``, atoms ``y_k`` of weight ``w_k`` and x = lam / reg:

    log Z_k  = log sum_l exp(x_l - c(z_l, y_k)/reg)
    value    = sum_k w_k log Z_k
    p_l      = sum_k w_k exp(x_l - c(z_l, y_k)/reg - log Z_k)

One exponential a pair. Everything is shifted by the largest term of its sum, so nothing overflows, and a sum is never
zero. Where ``p_l`` itself is too small for ordinary arithmetic, its logarithm comes from a second pass that shifts over
the atoms instead.

Atom k sits at point ``index[k]`` of a table. The cost is either squared Euclidean, computed on the fly from ``support_t
(d, n)`` and the table ``atoms (U, d)``, or read from rows ``cost (U, n)`` that the caller made; the other is empty.
Both arrive already divided by reg (points by its square root). The kernels run in the precision of their arrays.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.oracle.vector_math import fast_exp, fast_log

# below this p_l is summed again in the log domain (a float32 sum: below SMALL_32)
SMALL_64, SMALL_32 = 1e-280, 1e-30
LOWEST = -1e30


@compiled_inline
def exponents(x, support_t, atoms, cost, k, out):
    """``out_l = x_l - c(z_l, y)`` for point k of the table; returns the largest."""
    top = x[0] * 0 + LOWEST
    if cost.size:
        line = cost[k]
        for j in range(x.size):
            term = x[j] - line[j]
            out[j] = term
            top = max(top, term)
        return top
    source = x
    for axis in range(atoms.shape[1] - 1):
        y, line = atoms[k, axis], support_t[axis]
        for j in range(x.size):
            gap = line[j] - y
            out[j] = source[j] - gap * gap
        source = out
    y, line = atoms[k, atoms.shape[1] - 1], support_t[atoms.shape[1] - 1]
    for j in range(x.size):
        gap = line[j] - y
        term = source[j] - gap * gap
        out[j] = term
        top = max(top, term)
    return top


@compiled_inline
def shifted_exponentials(terms, top):
    """Replace ``terms`` by ``exp(terms - top)``; return their sum."""
    total = top * 0
    for j in range(terms.size):
        term = fast_exp(terms[j] - top)
        terms[j] = term
        total += term
    return total


@compiled
def node(x, support_t, atoms, cost, index, weight, start, stop, p, log_p):
    """One node: fills ``p (n,)``, and ``log_p (n,)`` unless it is empty; returns the value in units of reg."""
    terms = np.empty_like(x)
    log_z = np.empty(stop - start)
    value = 0.0
    p[:] = 0
    for k in range(start, stop):
        top = exponents(x, support_t, atoms, cost, index[k], terms)
        total = shifted_exponentials(terms, top)
        factor = weight[k] / total
        for j in range(x.size):
            p[j] += factor * terms[j]
        log_z[k - start] = top + np.log(total)
        value += weight[k] * log_z[k - start]
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
        exponents(x, support_t, atoms, cost, index[k], terms)
        shift = np.log(weight[k]) - log_z[k - start]
        for j in range(x.size):
            top[j] = max(top[j], terms[j] + shift)
    for k in range(start, stop):
        exponents(x, support_t, atoms, cost, index[k], terms)
        shift = np.log(weight[k]) - log_z[k - start]
        for j in range(x.size):
            total[j] += fast_exp(terms[j] + shift - top[j])
    for j in range(x.size):
        log_p[j] = top[j] + fast_log(total[j])


@compiled
def nodes_serial(x, support_t, atoms, cost, index, weight, start, stop, value, p, log_p):
    """``node`` for a batch ``x (b, n)`` whose row i has the atoms ``start[i]:stop[i]``."""
    for i in range(x.shape[0]):
        value[i] = node(x[i], support_t, atoms, cost, index, weight, start[i], stop[i], p[i], log_p[i])


@compiled_parallel
def nodes_parallel(x, support_t, atoms, cost, index, weight, start, stop, value, p, log_p):
    """``nodes_serial`` on all cores."""
    for i in numba.prange(x.shape[0]):
        value[i] = node(x[i], support_t, atoms, cost, index, weight, start[i], stop[i], p[i], log_p[i])


@compiled_parallel
def log_sums_over_support(x, support_t, atoms, cost, index, start, stop, first, out):
    """``log Z_k`` of every atom: row i of ``x (b, n)`` fills ``out[first[i] : first[i] + stop[i] - start[i]]``."""
    for i in numba.prange(x.shape[0]):
        terms = np.empty_like(x[i])
        for k in range(start[i], stop[i]):
            top = exponents(x[i], support_t, atoms, cost, index[k], terms)
            total = shifted_exponentials(terms, top)
            out[first[i] + k - start[i]] = top + np.log(total)
