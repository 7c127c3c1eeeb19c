"""Compiled kernels that store messages, and add up those received.

The pool holds one message in each row, padded to a multiple of LANES columns.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from barymesh.core.compiling import compiled, compiled_parallel

# columns summed at once: four registers of AVX2, enough to hide the latency of an addition
LANES = 16
# many senders are summed in blocks of this size: six messages of each fill the fastest cache
FEW_SENDERS = 32
# receivers that add up one block of senders before the next: their sums must stay in the cache too
FEW_ROWS = 48


def _adding(typing_context, pool, slots, start, stop, column, sums, row):
    """``sums[row, column:column+LANES] += pool[slots[e], column:column+LANES]`` for e from ``start`` to ``stop``, in
    that order."""

    def build(context, builder, signature, args):
        pool, slots, sums = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1, 5))
        start, stop, column, row = args[2], args[3], args[4], args[6]
        vector = ir.VectorType(ir.DoubleType(), LANES)
        width = cgutils.unpack_tuple(builder, pool.shape)[1]
        total = cgutils.alloca_once(builder, vector)

        def place(data, line):
            index = builder.add(builder.mul(line, width), column)
            return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())

        target = place(sums.data, row)
        builder.store(builder.load(target, align=8), total)
        with cgutils.for_range(builder, stop, start=start) as loop:
            slot = builder.sext(builder.load(builder.gep(slots.data, [loop.index])), width.type)
            values = builder.load(place(pool.data, slot), align=8)
            builder.store(builder.fadd(builder.load(total), values), total)
        builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(pool, slots, whole, whole, whole, sums, whole), build


_add_rows: Any = intrinsic(_adding)


@compiled
def sum_messages_between(begin, end, first, last, slots, pool, no_message, totals, counts):
    """``sum_messages`` for the rows ``begin`` to ``end``.

    Many neighbours are summed in blocks, a few columns of a few senders at a time: these stay in the fastest cache
    while all rows add them up. The order of the sum is the same.
    """
    sums = np.zeros((end - begin, pool.shape[1]))
    large, larges, most = np.empty(end - begin, np.int64), 0, 0
    for row in range(begin, end):
        start, stop = first[row], last[row]
        count = 0
        for e in range(start, stop):
            count += slots[e] != no_message
        counts[row] = count
        if stop - start > 2 * FEW_SENDERS:
            large[larges] = row
            larges += 1
            most = max(most, stop - start)
        else:
            for column in range(0, pool.shape[1], LANES):
                _add_rows(pool, slots, start, stop, column, sums, row - begin)
    parts = most // FEW_SENDERS
    for block in range(0, larges, FEW_ROWS):
        for column in range(0, pool.shape[1], LANES):
            for part in range(parts):
                for row in large[block : min(larges, block + FEW_ROWS)]:
                    start, count = first[row], last[row] - first[row]
                    here, there = start + part * count // parts, start + (part + 1) * count // parts
                    _add_rows(pool, slots, here, there, column, sums, row - begin)
    for row in range(begin, end):
        for k in range(totals.shape[1]):
            totals[row, k] = sums[row - begin, k]


@compiled_parallel
def sum_messages(shares, first, last, slots, pool, no_message, totals, counts):
    """For every activation a: ``totals (b, w)``, the sum of the newest messages received, which are the rows
    ``slots[first[a]:last[a]]`` of the pool, and ``counts (b,)``, the number of neighbours they came from. ``pool`` has
    a multiple of LANES columns.

    The messages of a node are always added in the same order, so the sum does not depend on the batch.
    """
    for share in numba.prange(shares):
        sum_messages_between(
            share * first.size // shares, (share + 1) * first.size // shares, first, last, slots, pool, no_message,
            totals, counts,
        )  # fmt: skip


@compiled_parallel
def store_messages(slots, messages, pool):
    """Copy the messages ``(b, w)`` into the rows ``slots`` of the pool."""
    for row in numba.prange(slots.size):
        for k in range(messages.shape[1]):
            pool[slots[row], k] = messages[row, k]
