"""What becomes of a message: a function of its edge, its number and the time it was sent, and of nothing else.

Message ``number`` on an edge has a delay drawn from 32 bits, ``bits(edge key, number)``, and further draws for its
faults. Times are whole ticks, so the fast way in 32-bit integers (``mail_kernels.look_fast``) and the general way here
agree exactly.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.core.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.core.counter_random import DELAYS, key, mixed, sine_and_cosine, unit, word
from barymesh.core.times import CATEGORICAL, FOREVER, LOG_NORMAL, SPACED, TICK, TICKS
from barymesh.core.vector_math import fast_log

NEVER = FOREVER
# further numbers drawn for a message: for the delay, the delay of its copy, and one for each kind of fault
DRAWS = 8
SECOND, COPYS_SECOND, LOSS, COPY, HOLD, HOLD_LENGTH = range(6)
# a copy draws its delay as if it had this number more
COPYS_NUMBER = 1 << 40

FIRST_32, SECOND_32 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
HALF, TWO_32 = 0.5, 2.0**-32


@compiled_inline
def mixed_32(x):
    """A bijection of 32-bit numbers that leaves no trace of its input (Wellons' lowbias32)."""
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(16))) * FIRST_32)
    x = np.uint32(np.uint32(x ^ (x >> np.uint32(15))) * SECOND_32)
    return np.uint32(x ^ (x >> np.uint32(16)))


@compiled_inline
def number_key(number):
    """32 bits for the number of a message; with the key of its edge they make its draw."""
    return np.uint32(mixed(np.uint64(number)) >> np.uint64(32))


@compiled_inline
def edge_key(name):
    """The 32 bits of an edge's name that its delays are drawn from."""
    return np.uint32(name >> np.uint64(32))


@compiled
def within(time, spans, first, item):
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
def delay(name, number, copy, law, trace):
    """The delay of message ``number`` on the edge of that name, or of its ``copy``; see DelayTable."""
    kind, count = law[0], np.int64(law[1])
    bits = mixed_32(np.uint32(edge_key(name) ^ number_key(number + copy * COPYS_NUMBER)))
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
        other = SECOND if copy == 0 else COPYS_SECOND
        _, cosine = sine_and_cosine(4.0 * unit(word(name, DRAWS * number + other)))
        return np.floor(law[2] * np.exp(law[3] * radius * cosine) * TICKS) * TICK
    first, length = np.int64(trace >> 32), np.int64(trace & 0xFFFFFFFF)
    start = np.int64(name % np.uint64(length))
    return law[2 + first + (start + number + copy) % length]


@compiled
def arrival(name, e, number, sent, receiver, law, trace, offset, rates, deaf, deaf_first, cut, cut_first):
    """When message ``number`` on edge e, sent at time ``sent``, reaches its receiver; NEVER if it is lost."""
    if cut.size and within(sent, cut, cut_first, e):
        return NEVER
    if rates[0] > 0.0 and unit(word(name, DRAWS * number + LOSS)) < rates[0]:
        return NEVER
    time = sent + offset + delay(name, number, 0, law, trace)
    if rates[2] > 0.0 and unit(word(name, DRAWS * number + HOLD)) < rates[2]:
        time += np.floor(rates[3] * unit(word(name, DRAWS * number + HOLD_LENGTH)) * TICKS) * TICK
    if deaf.size and within(time, deaf, deaf_first, receiver):
        time = NEVER
    if rates[1] > 0.0 and unit(word(name, DRAWS * number + COPY)) < rates[1]:
        second = sent + offset + delay(name, number, 1, law, trace)
        if not (deaf.size and within(second, deaf, deaf_first, receiver)):
            time = min(time, second)
    return time


@compiled
def idle(nodes, times, spans, first):
    """Which of the activations ``nodes (b,)`` at ``times (b,)`` do not happen, because the node sleeps or is down."""
    out = np.zeros(nodes.size, np.bool_)
    for a in range(nodes.size):
        out[a] = within(times[a], spans, first, nodes[a])
    return out


@compiled_parallel
def round_end(
    number, start, offsets, neighbours, names, law, offset, trace, rates, deaf, deaf_first, cut, cut_first,
    idle_spans, idle_first,
):  # fmt: skip
    """When the slowest message of a round has arrived, and how many were sent."""
    size = offsets.size - 1
    ends, sent = np.zeros(size), np.zeros(size, np.int64)
    for i in numba.prange(size):
        end = start
        if idle_spans.size:
            end = end_of_span(start, idle_spans, idle_first, i)
        for e in range(offsets[i], offsets[i + 1]):
            extra, tape = offset[e] if offset.size else 0.0, trace[e] if trace.size else 0
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
                time += extra + delay(names[e], attempt, 0, law, tape)
                if rates[2] > 0.0 and unit(word(names[e], DRAWS * attempt + HOLD)) < rates[2]:
                    time += np.floor(rates[3] * unit(word(names[e], DRAWS * attempt + HOLD_LENGTH)) * TICKS) * TICK
                if deaf.size and within(time, deaf, deaf_first, i):
                    time = end_of_span(time, deaf, deaf_first, i)
                elif not lost:
                    break
                attempt += np.int64(1) << 32
            end = max(end, time)
        ends[i] = end
    return ends.max(), sent.sum()


@compiled_parallel
def name_edges(seed, sender, receiver, out):
    """The stream of draws of every directed edge."""
    for e in numba.prange(out.size):
        out[e] = key(seed, DELAYS, sender[e], receiver[e])
