"""The kernels of core/delivery.cpp in plain Python: one message at a time, numbers of any size."""

from __future__ import annotations

import math

from barymesh.core import kernels

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
DELAYS = 2
NORMAL, COPY_NORMAL, LOSS, COPY, HOLD, HOLD_LENGTH = range(6)
COPY_NUMBER = 2**40


def mix(x):
    """SplitMix64's finaliser."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def mix_32(x):
    """Wellons' lowbias32."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def random_stream(seed, purpose, a, b):
    x = mix((seed + GOLDEN * (purpose + 1)) & MASK)
    x = mix(x ^ (a * GOLDEN + 1) & MASK)
    return mix(x ^ (b * GOLDEN + 1) & MASK)


def draw(stream, message, kind):
    """A random number in (0, 1) of a message."""
    bits = mix((stream + GOLDEN * (8 * message + kind + 1)) & MASK)
    return ((bits >> 11) + 0.5) * 2.0**-53


def whole_ticks(seconds):
    return math.floor(seconds * kernels.TICKS) / kernels.TICKS


def span_end(time, spans):
    """The end of the span ``(first, stop)`` that contains the time, or None."""
    return next((stop for start, stop in spans if start <= time < stop), None)


class Edge:
    """A directed edge: what happens to the messages on it.

    ``edges``, ``delays`` and ``faults`` are the tuples that the kernels get.
    """

    def __init__(self, e, receiver, edges, delays, faults):
        law, offset, trace = delays
        rates, crashed, crashed_first, cut, cut_first = faults
        self.stream, self.law = int(edges[2][e]), law.tolist()
        self.offset = float(offset[e]) if offset.size else 0.0
        self.trace = int(trace[e]) if trace.size else 0
        self.loss, self.copy, self.hold, self.longest_hold = rates.tolist()
        self.crashed = crashed[crashed_first[receiver] : crashed_first[receiver + 1]].tolist()
        self.cut = cut[cut_first[e] : cut_first[e + 1]].tolist()

    def happens(self, message, kind, probability):
        return probability > 0 and draw(self.stream, message, kind) < probability

    def delay(self, message, copy=0):
        """The delay of a message, or of its copy, without hold-ups."""
        kind, count, *numbers = self.law
        count = int(count)
        key = mix((message + copy * COPY_NUMBER) & MASK) >> 32
        bits = mix_32((self.stream >> 32) ^ key)
        level = (bits + 0.5) * 2.0**-32
        if kind == kernels.SPACED:
            return self.offset + numbers[0] + numbers[1] * (bits * count >> 32)
        if kind == kernels.CATEGORICAL:
            values, levels = numbers[:count], numbers[count:]
            return self.offset + next(value for value, top in zip(values, levels, strict=True) if top >= level)
        if kind == kernels.LOG_NORMAL:
            angle = 2 * math.pi * draw(self.stream, message, COPY_NORMAL if copy else NORMAL)
            normal = math.sqrt(-2 * math.log(level)) * math.cos(angle)
            return self.offset + whole_ticks(numbers[0] * math.exp(numbers[1] * normal))
        first, length = self.trace >> 32, self.trace & 0xFFFFFFFF
        return self.offset + numbers[first + (self.stream % length + message + copy) % length]

    def hold_up(self, message):
        if not self.happens(message, HOLD, self.hold):
            return 0.0
        return whole_ticks(self.longest_hold * draw(self.stream, message, HOLD_LENGTH))

    def arrival(self, message, sent):
        """When a message reaches the receiver, FOREVER if it does not."""
        if span_end(sent, self.cut) is not None or self.happens(message, LOSS, self.loss):
            return kernels.FOREVER
        times = [sent + self.delay(message) + self.hold_up(message)]
        if self.happens(message, COPY, self.copy):
            times.append(sent + self.delay(message, copy=1))
        return min([time for time in times if span_end(time, self.crashed) is None], default=kernels.FOREVER)

    def round(self, message, start):
        """When a message that is sent again until it arrives reaches the receiver, and how many were sent."""
        time, count = start, 0
        while time < kernels.FOREVER:
            time = span_end(time, self.cut) or time
            count += 1 + self.happens(message, COPY, self.copy)
            time += self.delay(message) + self.hold_up(message)
            back = span_end(time, self.crashed)
            if back is None and not self.happens(message, LOSS, self.loss):
                break
            time = time if back is None else back
            message += 2**32
        return time, count
