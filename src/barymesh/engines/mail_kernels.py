"""Compiled kernels of the simulated mail: who has received what by when, and sums of what was received.

What becomes of a message is a function of its address (seed, edge, number) and the time it was sent; nothing is queued.
So a receiver that looks at time t finds the newest message of a neighbour by asking for each, newest first, whether it
has arrived. Only numbers are kept for an edge, never a vector.

Edge e in ``offsets[i]:offsets[i+1]`` leads to receiver i from sender ``neighbours[e]``. ``held_number[e]`` and
``held_slot[e]`` tell its newest received message: its number among the sender's, and its row in the pool. A sender's
last ``R`` messages are in its ring: message c was sent at ``ring_time[j, c % R]``, and its row is
``ring_slot[j, c % R]``.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from barymesh.addressed import DELAYS, key, sine_and_cosine, unit, word
from barymesh.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.network.delays import CATEGORICAL, LOG_NORMAL, UNIFORM
from barymesh.network.faults import FOREVER
from barymesh.oracle.vector_math import fast_log

NEVER = FOREVER
# numbers drawn for a message: two for the delay, two for the delay of its copy, then one for each kind of fault
DRAWS = 8
LOSS, COPY, HOLD, HOLD_LENGTH = 4, 5, 6, 7
# columns summed at once: four registers of AVX2, enough to hide the latency of an addition
LANES = 16
# nodes with more neighbours than this are summed a few columns at a time, so that the columns stay in the cache
MANY_NEIGHBOURS = 32


@compiled_inline
def within(time, spans, first, item):
    """Whether the time lies in one of the item's spans ``(start, stop)``."""
    inside = False
    for k in range(first[item], first[item + 1]):
        inside = inside or spans[k, 0] <= time < spans[k, 1]
    return inside


@compiled
def delay(name, e, number, draw, kind, values, levels, offset, first, count):
    """The delay of message ``number`` on edge e; see DelayTable. ``draw`` tells the message from its copy."""
    if kind == CATEGORICAL:
        level = unit(word(name, DRAWS * number + draw))
        k = 0
        while k < levels.size - 1 and levels[k] < level:
            k += 1
        return offset[e] + values[k]
    if kind == UNIFORM:
        return offset[e] + values[0] + (values[1] - values[0]) * unit(word(name, DRAWS * number + draw))
    if kind == LOG_NORMAL:
        radius = np.sqrt(-2.0 * fast_log(unit(word(name, DRAWS * number + draw))))
        _, cosine = sine_and_cosine(4.0 * unit(word(name, DRAWS * number + draw + 1)))
        return offset[e] + values[0] * np.exp(values[1] * radius * cosine)
    start = np.int64(name % np.uint64(count[e]))
    return offset[e] + values[first[e] + (start + number + draw) % count[e]]


@compiled
def arrival(
    name, e, number, sent, receiver, kind, values, levels, offset, first, count,
    rates, deaf, deaf_first, cut, cut_first,
):  # fmt: skip
    """When message ``number`` on edge e, sent at time ``sent``, reaches its receiver; NEVER if it is lost."""
    if cut.size and within(sent, cut, cut_first, e):
        return NEVER
    if rates[0] > 0.0 and unit(word(name, DRAWS * number + LOSS)) < rates[0]:
        return NEVER
    time = sent + delay(name, e, number, 0, kind, values, levels, offset, first, count)
    if rates[2] > 0.0 and unit(word(name, DRAWS * number + HOLD)) < rates[2]:
        time += rates[3] * unit(word(name, DRAWS * number + HOLD_LENGTH))
    if deaf.size and within(time, deaf, deaf_first, receiver):
        time = NEVER
    if rates[1] > 0.0 and unit(word(name, DRAWS * number + COPY)) < rates[1]:
        second = sent + delay(name, e, number, 2, kind, values, levels, offset, first, count)
        if not (deaf.size and within(second, deaf, deaf_first, receiver)):
            time = min(time, second)
    return time


@compiled_parallel
def look(
    order, group, nodes, times, starts, offsets, neighbours, names, newest, reach, ring_time, ring_slot, held_number,
    held_slot, since, kind, values, levels, offset, first, count, least, rates, deaf, deaf_first, cut, cut_first,
    faulty, found_number, found_slot,
):  # fmt: skip
    """What every activation of a slab finds in its mail: activation a fills ``found_slot[starts[a]:starts[a+1]]`` with
    the rows of the newest message received from each neighbour, and ``found_number`` with their numbers.

    ``order`` lists the activations node by node, each node's in time, ``order[group[g]:group[g+1]]`` those of one node.
    ``newest (m,)`` numbers every node's last message, those of this slab included; messages ``reach`` before it are
    known to have been received, or lost. A message sent at the very moment of
    looking is not seen, so the order of simultaneous activations does not matter.
    """
    mask = ring_time.shape[1] - 1
    for g in numba.prange(group.size - 1):
        for place in range(group[g], group[g + 1]):
            a = order[place]
            i, now = nodes[a], times[a]
            shift = starts[a] - offsets[i]
            for e in range(offsets[i], offsets[i + 1]):
                j = neighbours[e]
                lowest = max(held_number[e], newest[j] - reach)
                number = newest[j]
                while number > lowest:
                    sent = ring_time[j, number & mask]
                    if sent + least <= now and sent < now:
                        if faulty:
                            time = arrival(
                                names[e], e, number, sent, i, kind, values, levels, offset, first, count,
                                rates, deaf, deaf_first, cut, cut_first,
                            )  # fmt: skip
                        else:
                            time = sent + delay(names[e], e, number, 0, kind, values, levels, offset, first, count)
                        if time <= now and time >= since[i]:
                            break
                    number -= 1
                if number > lowest:
                    held_number[e] = number
                    held_slot[e] = ring_slot[j, number & mask]
                found_number[shift + e] = held_number[e]
                found_slot[shift + e] = held_slot[e]


@compiled
def levels_of(nodes, starts, offsets, neighbours, acted, place_of, found_number, level):
    """The order of execution: ``level[a]`` is one more than that of every activation of the slab that a depends on,
    which are its node's last and those whose messages it received. Returns the number of levels.

    ``acted (m,)``: messages sent before this slab; message c of node j in it is activation ``place_of[j, c % R]``.
    """
    mask = place_of.shape[1] - 1
    own = np.full(offsets.size - 1, -1)
    highest = -1
    for a in range(nodes.size):
        i = nodes[a]
        rank = own[i] + 1
        for e in range(offsets[i], offsets[i + 1]):
            j = neighbours[e]
            number = found_number[starts[a] + e - offsets[i]]
            if number >= acted[j]:
                rank = max(rank, level[place_of[j, number & mask]] + 1)
        level[a] = rank
        own[i] = rank
        highest = max(highest, rank)
    return highest + 1


@compiled
def settle(
    now, offsets, neighbours, names, acted, reach, ring_time, ring_slot, held_number, held_slot, since,
    kind, values, levels, offset, first, count, rates, deaf, deaf_first, cut, cut_first, used,
):  # fmt: skip
    """Bring every edge up to time ``now``, mark the rows of the pool still needed, and return the age of the oldest
    message on its way, counted in messages of its sender."""
    mask = ring_time.shape[1] - 1
    oldest = 0
    for i in range(offsets.size - 1):
        for e in range(offsets[i], offsets[i + 1]):
            j = neighbours[e]
            number = acted[j] - 1
            lowest = acted[j] - 1 - reach
            while number > max(held_number[e], lowest):
                sent = ring_time[j, number & mask]
                time = arrival(
                    names[e], e, number, sent, i, kind, values, levels, offset, first, count,
                    rates, deaf, deaf_first, cut, cut_first,
                )  # fmt: skip
                if time <= now and time >= since[i]:
                    held_number[e] = number
                    held_slot[e] = ring_slot[j, number & mask]
                elif time > now and time < NEVER:
                    used[ring_slot[j, number & mask]] = True
                    oldest = max(oldest, acted[j] - number)
                number -= 1
            used[held_slot[e]] = True
    return oldest


@compiled
def count_copies(names, offsets, reverse, nodes, numbers, rate):
    """How many of the messages that ``nodes`` send to all their neighbours are sent twice."""
    copies = 0
    for a in range(nodes.size):
        for e in range(offsets[nodes[a]], offsets[nodes[a] + 1]):
            copies += unit(word(names[reverse[e]], DRAWS * numbers[a] + COPY)) < rate
    return copies


def _summing(typing_context, pool, slots, start, stop, column, out):
    """``out[:LANES] = sum over e in start:stop of pool[slots[e], column:column+LANES]``."""

    def build(context, builder, signature, args):
        pool, slots, out = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1, 5))
        start, stop, column = args[2:5]
        vector = ir.VectorType(ir.DoubleType(), LANES)
        width = cgutils.unpack_tuple(builder, pool.shape)[1]
        total = cgutils.alloca_once(builder, vector)
        builder.store(ir.Constant(vector, [0.0] * LANES), total)
        with cgutils.for_range(builder, stop, start=start) as loop:
            slot = builder.sext(builder.load(builder.gep(slots.data, [loop.index])), width.type)
            source = builder.gep(pool.data, [builder.add(builder.mul(slot, width), column)])
            values = builder.load(builder.bitcast(source, vector.as_pointer()), align=8)
            builder.store(builder.fadd(builder.load(total), values), total)
        builder.store(builder.load(total), builder.bitcast(out.data, vector.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(pool, slots, types.intp, types.intp, types.intp, out), build


_sum_rows: Any = intrinsic(_summing)


@compiled_parallel
def receive(batch, starts, found_slot, pool, nowhere, totals, heard):
    """For every activation a of ``batch``: the sum of the newest messages it received, ``totals (b, w)``, and how many
    neighbours it has heard from, ``heard (b,)``. ``pool`` has a whole number of LANES columns.

    The messages of a node are always added in the same order, so the sum does not depend on the batch.
    """
    width = totals.shape[1]
    most = 0
    for row in range(batch.size):
        most = max(most, starts[batch[row] + 1] - starts[batch[row]])
    blocks = pool.shape[1] // LANES
    # many neighbours: a few columns of all rows at a time; few: all columns of a row
    sweeps = blocks if most > MANY_NEIGHBOURS else 1
    for sweep in range(sweeps):
        for row in numba.prange(batch.size):
            start, stop = starts[batch[row]], starts[batch[row] + 1]
            if sweep == 0:
                count = 0
                for e in range(start, stop):
                    count += found_slot[e] != nowhere
                heard[row] = count
            part = np.empty(LANES)
            for block in range(sweep, sweep + blocks // sweeps):
                column = block * LANES
                _sum_rows(pool, found_slot, start, stop, column, part)
                for k in range(min(LANES, width - column)):
                    totals[row, column + k] = part[k]


@compiled_parallel
def deposit(slots, messages, pool):
    """Put the messages ``(b, w)`` into the rows ``slots`` of the pool."""
    for row in numba.prange(slots.size):
        for k in range(messages.shape[1]):
            pool[slots[row], k] = messages[row, k]


@compiled_parallel
def name_edges(seed, sender, receiver, out):
    """The stream of draws of every directed edge."""
    for e in numba.prange(out.size):
        out[e] = key(seed, DELAYS, sender[e], receiver[e])


@compiled
def idle(nodes, times, spans, first):
    """Which of the activations ``nodes (b,)`` at ``times (b,)`` do not happen, because the node sleeps or is down."""
    out = np.zeros(nodes.size, np.bool_)
    if spans.size:
        for a in range(nodes.size):
            out[a] = within(times[a], spans, first, nodes[a])
    return out


@compiled_inline
def end_of_span(time, spans, first, item):
    """The time, or the end of the item's span that holds it."""
    for k in range(first[item], first[item + 1]):
        if spans[k, 0] <= time < spans[k, 1]:
            time = spans[k, 1]
    return time


@compiled_parallel
def round_end(
    number, start, offsets, neighbours, names, kind, values, levels, offset, first, count,
    rates, deaf, deaf_first, cut, cut_first, idle_spans, idle_first,
):  # fmt: skip
    """When the slowest message of a round has arrived, and how many were sent."""
    size = offsets.size - 1
    ends, sent = np.zeros(size), np.zeros(size, np.int64)
    for i in numba.prange(size):
        end = start
        if idle_spans.size:
            end = end_of_span(start, idle_spans, idle_first, i)
        for e in range(offsets[i], offsets[i + 1]):
            time = start
            if idle_spans.size:
                time = end_of_span(start, idle_spans, idle_first, neighbours[e])
            # attempts have numbers of their own, far from those of later rounds
            attempt = np.int64(number)
            while time < NEVER:
                if cut.size:
                    time = end_of_span(time, cut, cut_first, e)
                sent[i] += 1
                lost = rates[0] > 0.0 and unit(word(names[e], DRAWS * attempt + LOSS)) < rates[0]
                if rates[1] > 0.0 and unit(word(names[e], DRAWS * attempt + COPY)) < rates[1]:
                    sent[i] += 1
                time += delay(names[e], e, attempt, 0, kind, values, levels, offset, first, count)
                if rates[2] > 0.0 and unit(word(names[e], DRAWS * attempt + HOLD)) < rates[2]:
                    time += rates[3] * unit(word(names[e], DRAWS * attempt + HOLD_LENGTH))
                if deaf.size and within(time, deaf, deaf_first, i):
                    time = end_of_span(time, deaf, deaf_first, i)
                elif not lost:
                    break
                attempt += np.int64(1) << 40
            end = max(end, time)
        ends[i] = end
    return ends.max(), sent.sum()
