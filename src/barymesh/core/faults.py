"""When a message arrives, if it does: a function of its edge, its number and the time it was sent alone.

The delay of message ``number`` on an edge is drawn from 32 bits, a hash of the edge's key and the number; its faults
have further draws. Times are whole ticks, so the fast lookup in 32-bit integers (``find_newest_fast`` in
core/delivery.py) and the general one here agree exactly.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.core.counter_random import DELAYS, mix, random_bits, random_stream, sine_and_cosine, unit
from barymesh.core.times import CATEGORICAL, FOREVER, LOG_NORMAL, SPACED, TICK, TICKS
from barymesh.core.vector_math import fast_log

NEVER = FOREVER
# further random numbers of a message: for the delay, for the delay of its copy, and one for each kind of fault
DRAWS = 8
NORMAL, COPY_NORMAL, LOSS, COPY, HOLD, HOLD_LENGTH = range(6)
# added to the number of a message to draw the delay of its copy
COPY_NUMBER = 1 << 40

FACTOR_1_32, FACTOR_2_32 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
HALF, TWO_32 = 0.5, 2.0**-32


@compiled_inline
def mix_32(x):
    """A bijection of 32-bit numbers with good mixing (Wellons' lowbias32)."""
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(16))) * FACTOR_1_32)
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(15))) * FACTOR_2_32)
    return np.uint32(x ^ (x >> np.uint32(16)))


@compiled_inline
def number_key(number):
    """32 bits from the number of a message; its delay is drawn from these and the key of its edge."""
    return np.uint32(mix(np.uint64(number)) >> np.uint64(32))


@compiled_inline
def edge_key(stream):
    """The 32 bits of an edge's stream that its delays are drawn from."""
    return np.uint32(stream >> np.uint64(32))


@compiled
def in_span(time, spans, first, item):
    """Whether the time lies in one of the item's spans ``(start, stop)``."""
    inside = False
    for k in range(first[item], first[item + 1]):
        inside = inside or spans[k, 0] <= time < spans[k, 1]
    return inside


@compiled
def end_of_span(time, spans, first, item):
    """The time, or the end of the item's span that holds it."""
    for k in range(first[item], first[item + 1]):
        if spans[k, 0] <= time < spans[k, 1]:
            time = spans[k, 1]
    return time


@compiled
def delay(stream, number, copy, law, trace):
    """The delay of message ``number`` on the edge with this random stream, or of its ``copy``; see DelayTable."""
    kind, count = law[0], np.int64(law[1])
    bits = mix_32(np.uint32(edge_key(stream) ^ number_key(number + copy * COPY_NUMBER)))
    level = (np.float64(bits) + HALF) * TWO_32
    if kind == SPACED:
        return law[2] + law[3] * np.float64((np.uint64(bits) * np.uint64(count)) >> np.uint64(32))
    if kind == CATEGORICAL:
        k = 2
        while law[k + count] < level:
            k += 1
        return law[k]
    if kind == LOG_NORMAL:
        radius = np.sqrt(-2.0 * fast_log(level))
        draw = NORMAL if copy == 0 else COPY_NORMAL
        _, cosine = sine_and_cosine(4.0 * unit(random_bits(stream, DRAWS * number + draw)))
        return np.floor(law[2] * np.exp(law[3] * radius * cosine) * TICKS) * TICK
    first, length = np.int64(trace >> 32), np.int64(trace & 0xFFFFFFFF)
    start = np.int64(stream % np.uint64(length))
    return law[2 + first + (start + number + copy) % length]


@compiled
def arrival(stream, e, number, sent, receiver, law, trace, offset, rates, crashed, crashed_first, cut, cut_first):
    """When message ``number`` on edge e, sent at time ``sent``, reaches its receiver; NEVER if it is lost."""
    if cut.size and in_span(sent, cut, cut_first, e):
        return NEVER
    if rates[0] > 0.0 and unit(random_bits(stream, DRAWS * number + LOSS)) < rates[0]:
        return NEVER
    time = sent + offset + delay(stream, number, 0, law, trace)
    if rates[2] > 0.0 and unit(random_bits(stream, DRAWS * number + HOLD)) < rates[2]:
        time += np.floor(rates[3] * unit(random_bits(stream, DRAWS * number + HOLD_LENGTH)) * TICKS) * TICK
    if crashed.size and in_span(time, crashed, crashed_first, receiver):
        time = NEVER
    if rates[1] > 0.0 and unit(random_bits(stream, DRAWS * number + COPY)) < rates[1]:
        second = sent + offset + delay(stream, number, 1, law, trace)
        if not (crashed.size and in_span(second, crashed, crashed_first, receiver)):
            time = min(time, second)
    return time


@compiled
def idle(nodes, times, spans, first):
    """Which of the activations ``nodes (b,)`` at ``times (b,)`` do not happen, because the node sleeps or is down."""
    out = np.zeros(nodes.size, np.bool_)
    for a in range(nodes.size):
        out[a] = in_span(times[a], spans, first, nodes[a])
    return out


@compiled_parallel
def round_end(
    number, start, offsets, neighbours, streams, law, offset, trace, rates, crashed, crashed_first, cut, cut_first,
    idle_spans, idle_first,
):  # fmt: skip
    """The arrival time of the slowest message of a round, and the number of messages sent; lost ones are sent again."""
    size = offsets.size - 1
    ends, sent = np.zeros(size), np.zeros(size, np.int64)
    for i in numba.prange(size):
        end = start
        if idle_spans.size:
            end = end_of_span(start, idle_spans, idle_first, i)
        for e in range(offsets[i], offsets[i + 1]):
            edge_offset, edge_trace = offset[e] if offset.size else 0.0, trace[e] if trace.size else 0
            time = start
            if idle_spans.size:
                time = end_of_span(start, idle_spans, idle_first, neighbours[e])
            # repeated attempts get numbers far from those of later rounds
            attempt = np.int64(number)
            while time < NEVER:
                if cut.size:
                    time = end_of_span(time, cut, cut_first, e)
                sent[i] += 1
                lost = rates[0] > 0.0 and unit(random_bits(streams[e], DRAWS * attempt + LOSS)) < rates[0]
                if rates[1] > 0.0 and unit(random_bits(streams[e], DRAWS * attempt + COPY)) < rates[1]:
                    sent[i] += 1
                time += edge_offset + delay(streams[e], attempt, 0, law, edge_trace)
                if rates[2] > 0.0 and unit(random_bits(streams[e], DRAWS * attempt + HOLD)) < rates[2]:
                    time += (
                        np.floor(rates[3] * unit(random_bits(streams[e], DRAWS * attempt + HOLD_LENGTH)) * TICKS) * TICK
                    )
                if crashed.size and in_span(time, crashed, crashed_first, i):
                    time = end_of_span(time, crashed, crashed_first, i)
                elif not lost:
                    break
                attempt += np.int64(1) << 32
            end = max(end, time)
        ends[i] = end
    return ends.max(), sent.sum()


@compiled_parallel
def edge_streams(seed, sender, receiver, out):
    """The random stream of every directed edge, into ``out (edges,)``."""
    for e in numba.prange(out.size):
        out[e] = random_stream(seed, DELAYS, sender[e], receiver[e])
