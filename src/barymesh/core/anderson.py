"""Compiled passes over the history of an Anderson-accelerated iteration, one row of ``(m, n)`` at a time."""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled_parallel
from barymesh.core.vector_math import fast_exp, fma
from barymesh.core.vector_sums import dot, sum_of

# numbers of a row processed together, so that they stay in the nearest cache
CHUNK = 1024


@compiled_parallel
def weighted_mean(rows, weights, out):
    """``out = weights @ rows``. Without BLAS, whose idle threads would compete with numba's."""
    width = 64
    for block in numba.prange((out.size + width - 1) // width):
        start, stop = block * width, min(out.size, (block + 1) * width)
        total = out[start:stop]
        total[:] = 0.0
        for i in range(rows.shape[0]):
            w = weights[i]
            part = rows[i, start:stop]
            for k in range(stop - start):
                total[k] = fma(part[k], w, total[k])


@compiled_parallel
def residual(log_p, mean, p, out_error):
    """``log_p <- mean - log_p`` row by row; ``out_error[i] = sum_l |p_i(l) - p(l)|``."""
    for i in numba.prange(log_p.shape[0]):
        line = log_p[i]
        gaps = np.empty(line.size)
        for k in range(line.size):
            gaps[k] = abs(fast_exp(line[k]) - p[k])
        for k in range(line.size):
            line[k] = mean[k] - line[k]
        out_error[i] = sum_of(gaps)


@compiled_parallel
def close_slot(r, relaxation, change, move):
    """Turn the previous residual and step in the slot into differences: ``change = dr`` and ``move = dx + relaxation *
    dr``."""
    for i in numba.prange(r.shape[0]):
        line, dr, dx = r[i], change[i], move[i]
        for k in range(line.size):
            difference = line[k] - dr[k]
            dr[k] = difference
            dx[k] += relaxation * difference


@compiled_parallel
def gram(changes, count, r, weights, p, out):
    """``out[i, q, s] = w_i sum_l p_l d_q d_s`` for residual differences d, and ``out[i, q, count] = w_i sum_l p_l d_q
    r``."""
    for i in numba.prange(r.shape[0]):
        out[i] = 0.0
        scaled = np.empty(min(p.size, CHUNK))
        for start in range(0, p.size, CHUNK):
            stop = min(start + CHUNK, p.size)
            line, part = r[i, start:stop], scaled[: stop - start]
            for q in range(count):
                left = changes[q, i, start:stop]
                for k in range(stop - start):
                    part[k] = weights[i] * p[start + k] * left[k]
                for s in range(q, count):
                    out[i, q, s] += dot(part, changes[s, i, start:stop])
                out[i, q, count] += dot(part, line)


@compiled_parallel
def advance(x, r, drift, fallback, moves, changes, count, coefficients, relaxation, slot):
    """Take the accelerated step and fill the next slot of the history.

    ``x <- x - drift + w r - sum_q c_q (dx_q + w dr_q)``; ``fallback`` gets the plain step ``x - drift + r``; the slot
    gets the step and the residual, from which ``close_slot`` computes the next differences.
    """
    for i in numba.prange(x.shape[0]):
        taken = np.empty(min(x.shape[1], CHUNK))
        for start in range(0, x.shape[1], CHUNK):
            stop = min(start + CHUNK, x.shape[1])
            line, step, plain, shift = x[i, start:stop], r[i, start:stop], fallback[i, start:stop], drift[start:stop]
            for k in range(stop - start):
                line[k] -= shift[k]
                plain[k] = line[k] + step[k]
                taken[k] = relaxation * step[k]
            for q in range(count):
                c = coefficients[q]
                move = moves[q, i, start:stop]
                for k in range(stop - start):
                    taken[k] -= c * move[k]
            new_move, new_change = moves[slot, i, start:stop], changes[slot, i, start:stop]
            for k in range(stop - start):
                line[k] += taken[k]
                new_move[k] = taken[k]
                new_change[k] = step[k]
