"""Compiled kernels of the mail of a complete network: who has received what, as one byte for each pair of nodes.

The byte is the *code* of the newest message received: the age of that message in messages of its sender, counted from
``first``, or NOTHING. With so few ages a sender's recent messages fit into the fastest cache, and a receiver adds up
its mail by looking up bytes.
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
from barymesh.core.faults import mixed_32, number_key
from barymesh.scenario.ticks import TICKS

# codes are below CODES; the last stands for a node's message to itself, which there is not
CODES = 8
NOTHING = CODES - 1
# columns summed at once: eight registers of AVX2. The rest by single registers
WIDE, NARROW = 32, 4
# senders whose messages are looked up together: all codes of WIDE columns fill the fastest cache
FEW_SENDERS = 16
# a tick that never comes
FAR_AHEAD = 1 << 29


@compiled
def span_of_ages(newest, ring_time, earliest, latest, least, most):
    """The ages ``first`` to ``last`` of messages that one must look at between the times ``earliest`` and ``latest``:
    younger ones have not arrived, and of the last age all have. ``last`` is -1 if there is no such age."""
    mask = ring_time.shape[1] - 1
    first = -1
    for age in range(mask + 1):
        soonest, slowest = np.inf, -np.inf
        for j in range(newest.size):
            if newest[j] < age:
                return 0, -1
            sent = ring_time[j, (newest[j] - age) & mask]
            soonest, slowest = min(soonest, sent), max(slowest, sent)
        if first < 0 and soonest + least <= latest:
            first = age
        if slowest + most <= earliest:
            return (age if first < 0 else first), age
    return 0, -1


@compiled
def recent(newest, ring_time, ring_slot, base, first, low, arrivals, keys, slots):
    """The messages of the ages that matter: ``arrivals[a, j]`` is the soonest that message ``newest[j] - first - a`` of
    node j arrives, in ticks from ``base`` on, ``keys[a, j]`` the key of its number, and ``slots[j, a]`` its row in the
    pool."""
    mask = ring_time.shape[1] - 1
    arrivals[:] = FAR_AHEAD
    for a in range(arrivals.shape[0]):
        for j in range(newest.size):
            number = newest[j] - first - a
            arrivals[a, j] = low + np.int64((ring_time[j, number & mask] - base) * TICKS)
            keys[a, j] = number_key(number)
            slots[j, a] = ring_slot[j, number & mask]


@compiled
def look_between(begin, end, nodes, nows, edge_keys, arrivals, keys, step, count, codes):
    """``look`` for the activations ``begin`` to ``end``: oldest messages first: the newest has the last word."""
    width = edge_keys.shape[1]
    code = np.empty(width, np.int32)
    for a in range(begin, end):
        now, i = nows[a], nodes[a]
        for j in range(width):
            code[j] = NOTHING
        for age in range(arrivals.shape[0] - 1, -1, -1):
            for j in range(width):
                bits = mixed_32(np.uint32(keys[age, j] ^ edge_keys[i, j]))
                choice = np.int32((np.uint64(bits) * np.uint64(count)) >> np.uint64(32))
                arrives = np.int32(arrivals[age, j] + np.int32(step * choice))
                code[j] = np.int32(age) if arrives <= now else code[j]
        for j in range(width):
            codes[a, j] = np.uint8(code[j])
        codes[a, i] = NOTHING


@compiled_parallel
def look(shares, nodes, nows, edge_keys, arrivals, keys, step, count, codes):
    """``codes[a, j]``: what activation a, of node ``nodes[a]`` at tick ``nows[a]``, has received from node j. The
    delays are evenly spaced: see ``fate_kernels.delay``, which draws the same."""
    for share in numba.prange(shares):
        begin, end = share * nodes.size // shares, (share + 1) * nodes.size // shares
        look_between(begin, end, nodes, nows, edge_keys, arrivals, keys, step, count, codes)


def _adder(lanes: int) -> Any:
    def _adding(typing_context, table, codes, start, stop, sums, row):
        """``sums[row, :lanes] += table[k, codes[start + k], :lanes]`` for k = 0, 1, ..., in that order."""

        def build(context, builder, signature, args):
            table, codes, sums = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1, 4))
            start, stop, row = args[2], args[3], args[5]
            vector, whole = ir.VectorType(ir.DoubleType(), lanes), start.type
            total = cgutils.alloca_once(builder, vector)

            def place(data, line):
                at = builder.gep(data, [builder.mul(line, whole(lanes))])
                return builder.bitcast(at, vector.as_pointer())

            target = place(sums.data, row)
            builder.store(builder.load(target, align=8), total)
            with cgutils.for_range(builder, stop, start=start) as loop:
                code = builder.zext(builder.load(builder.gep(codes.data, [loop.index])), whole)
                line = builder.add(builder.mul(builder.sub(loop.index, start), whole(CODES)), code)
                values = builder.load(place(table.data, line), align=8)
                builder.store(builder.fadd(builder.load(total), values), total)
            builder.store(builder.load(total), target, align=8)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(table, codes, whole, whole, sums, whole), build

    return intrinsic(_adding)


_add_wide, _add_narrow = _adder(WIDE), _adder(NARROW)


@compiled
def add_between(begin, end, batch, codes, slots, pool, scratch, totals):
    """``add_up`` for the rows ``begin`` to ``end``: a few columns of a few senders at a time, which stay in the fastest
    cache while all rows add them up. ``scratch``: room for these."""
    senders, width = slots.shape[0], codes.shape[1]
    all_codes, columns = codes.ravel(), totals.shape[1]
    column = 0
    while column < columns:
        lanes = WIDE if columns - column > WIDE - NARROW else NARROW
        some = scratch[: FEW_SENDERS * CODES * lanes]
        sums = np.zeros((end - begin) * lanes)
        for part in range(0, senders, FEW_SENDERS):
            stop = min(senders, part + FEW_SENDERS)
            for j in range(part, stop):
                for code in range(CODES):
                    source, target = np.uint64(slots[j, code]), np.uint64(((j - part) * CODES + code) * lanes)
                    for k in range(lanes):
                        some[target + np.uint64(k)] = pool[source, np.uint64(column) + np.uint64(k)]
            for row in range(begin, end):
                at = batch[row] * width
                if lanes == WIDE:
                    _add_wide(some, all_codes, at + part, at + stop, sums, row - begin)
                else:
                    _add_narrow(some, all_codes, at + part, at + stop, sums, row - begin)
        for row in range(begin, end):
            for k in range(min(lanes, columns - column)):
                totals[row, column + k] = sums[(row - begin) * lanes + k]
        column += lanes


@compiled_parallel
def add_up(batch, codes, slots, pool, scratch, totals):
    """``totals[k] = sum_j pool[slots[j, codes[batch[k], j]]]``, in the order of the senders; ``scratch`` has one row
    for each thread."""
    shares = scratch.shape[0]
    for share in numba.prange(shares):
        begin, end = share * batch.size // shares, (share + 1) * batch.size // shares
        add_between(begin, end, batch, codes, slots, pool, scratch[share], totals)


@compiled_parallel
def rows_of(batch, nodes, codes, slots, out):
    """The rows of the pool that the codes stand for: ``out (b, m - 1)``, without the node itself."""
    for k in numba.prange(batch.size):
        i = nodes[batch[k]]
        for j in range(slots.shape[0]):
            if j != i:
                out[k, j - (j > i)] = slots[j, codes[batch[k], j]]
