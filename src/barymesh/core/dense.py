"""Element-wise steps around the two matrix products of the dense oracle. See oracle/dense.py."""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled_parallel
from barymesh.core.vector_math import fast_exp, fast_log
from barymesh.core.vector_sums import sum_of


@compiled_parallel
def shifted_exp(x, top, out):
    """``out[i] = exp(x[i] - top[i])`` with ``top[i] = max x[i]``."""
    for i in numba.prange(x.shape[0]):
        line, target = x[i], out[i]
        high = line[0]
        for k in range(line.size):
            high = max(high, line[k])
        top[i] = high
        for k in range(line.size):
            target[k] = fast_exp(line[k] - high)


@compiled_parallel
def divide(masses, z, tiny, value, largest, ok):
    """``z <- masses / z`` where there is mass, 0 elsewhere; ``value = sum masses log z``; ``ok`` if every such z is
    above tiny."""
    for i in numba.prange(z.shape[0]):
        mass, line = masses[i], z[i, : masses.shape[1]]
        logs = np.empty(line.size)
        lowest, most = 1.0, 0.0
        for k in range(line.size):
            present = mass[k] > 0.0
            number = np.float64(line[k]) if present else 1.0
            lowest = min(lowest, number)
            logs[k] = mass[k] * fast_log(max(number, 1e-300))
            line[k] = mass[k] / number if number > tiny else 0.0
            most = max(most, line[k])
        value[i], largest[i] = sum_of(logs), most
        ok[i] = lowest > tiny


@compiled_parallel
def log_gradients(x, top, sums, largest, tiny, ok, log_p):
    """``log_p = x - top + log sums``; ``ok`` becomes False where a sum may have lost terms to underflow."""
    for i in numba.prange(x.shape[0]):
        line, part, out = x[i], sums[i, : x.shape[1]], log_p[i]
        lowest = part[0]
        for k in range(line.size):
            lowest = min(lowest, part[k])
        ok[i] = ok[i] and lowest > tiny * max(largest[i], 1.0)
        for k in range(line.size):
            out[k] = line[k] - top[i] + fast_log(max(np.float64(part[k]), 1e-300))


@compiled_parallel
def log_sums(z, top, position, offsets, starts, tiny, out, ok):
    """``out[starts[i]:starts[i + 1]] = top[i] + log z[i]`` at the atoms of node i, which are in ``position`` from
    ``offsets[i]``; ``ok`` if all of them are above tiny."""
    for i in numba.prange(z.shape[0]):
        lowest = 1.0
        for k in range(starts[i + 1] - starts[i]):
            number = np.float64(z[i, position[offsets[i] + k]])
            lowest = min(lowest, number)
            out[starts[i] + k] = top[i] + fast_log(max(number, 1e-300))
        ok[i] = lowest > tiny
