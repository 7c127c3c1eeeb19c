"""Compiled kernels of the simulated delivery of messages: what each node has received by when.

The arrival time of a message is a function of its address (seed, edge, number) and the time it was sent, so nothing is
queued: at time t, a receiver finds the newest message of a neighbour by computing the arrival times, newest first. An
edge stores two integers, never a vector.

Edge e in ``offsets[i]:offsets[i+1]`` leads to receiver i from sender ``neighbours[e]``. Its newest received message has
the number ``held_number[e]`` among those of the sender, and is in row ``held_slot[e]`` of the pool. The last ``R``
messages of sender j are in its ring buffer: message c was sent at ``ring_time[j, c % R]`` and is in row ``ring_slot[j,
c % R]``.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from barymesh.core.compiling import compiled, compiled_parallel
from barymesh.core.faults import FACTOR_1_32, FACTOR_2_32, NEVER, arrival, number_key
from barymesh.core.times import TICKS

# in ticks: so long ago that every message has arrived, and so late that none has
LONG_AGO, FAR_AHEAD = -(1 << 29), 1 << 29


@compiled
def sort_by_node(nodes, acted, offsets):
    """Sort the activations ``nodes (b,)`` of a slab, which are in the order of time, by node.

    Returns ``order (b,)`` and ``group``: ``order[group[g]:group[g+1]]`` are the activations of one node; ``numbers
    (b,)``: the number of earlier activations of the node, ``acted (m,)`` of them before the slab; ``starts (b + 1,)``:
    where the messages of each activation begin in a list of all; ``newest (m,)``: the number of every node's last
    activation, this slab included; and the largest number of activations of one node.
    """
    size = acted.size
    newest = acted - 1
    numbers, starts = np.empty(nodes.size, np.int64), np.zeros(nodes.size + 1, np.int64)
    for a in range(nodes.size):
        i = nodes[a]
        newest[i] += 1
        numbers[a] = newest[i]
        starts[a + 1] = starts[a] + offsets[i + 1] - offsets[i]
    place, group, groups, most = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64), 0, 0
    for i in range(size):
        count = newest[i] + 1 - acted[i]
        place[i + 1] = place[i] + count
        if count:
            groups += 1
            group[groups] = place[i + 1]
            most = max(most, count)
    order = np.empty(nodes.size, np.int64)
    for a in range(nodes.size):
        order[place[nodes[a]] + numbers[a] - acted[nodes[a]]] = a
    return order, group[: groups + 1].copy(), numbers, starts, newest, most


@compiled
def find_newest_between(
    begin, end, order, group, nodes, times, starts, offsets, neighbours, streams, newest, reach, ring_time, ring_slot,
    held_number, held_slot, since, law, offset, trace, shortest, rates, crashed, crashed_first, cut, cut_first,
    received_number, received_slot,
):  # fmt: skip
    """``find_newest`` for the nodes ``begin`` to ``end`` of the list."""
    mask = ring_time.shape[1] - 1
    for g in range(begin, end):
        for place in range(group[g], group[g + 1]):
            a = order[place]
            i, now = nodes[a], times[a]
            shift = starts[a] - offsets[i]
            for e in range(offsets[i], offsets[i + 1]):
                j = neighbours[e]
                lowest = max(np.int64(held_number[e]), newest[j] - reach)
                number = newest[j]
                while number > lowest and not (
                    ring_time[j, number & mask] + shortest <= now and ring_time[j, number & mask] < now
                ):
                    number -= 1
                edge_offset, edge_trace = offset[e] if offset.size else 0.0, trace[e] if trace.size else 0
                best = lowest
                while number > lowest and best == lowest:
                    time = arrival(
                        streams[e], e, number, ring_time[j, number & mask], i, law, edge_trace, edge_offset,
                        rates, crashed, crashed_first, cut, cut_first,
                    )  # fmt: skip
                    if time <= now and time >= since[i]:
                        best = number
                    number -= 1
                if best > lowest:
                    held_number[e] = best
                    held_slot[e] = ring_slot[j, best & mask]
                received_number[shift + e] = held_number[e]
                received_slot[shift + e] = held_slot[e]


@compiled_parallel
def find_newest(
    shares, order, group, nodes, times, starts, offsets, neighbours, streams, newest, reach, ring_time, ring_slot,
    held_number, held_slot, since, law, offset, trace, shortest, rates, crashed, crashed_first, cut, cut_first,
    received_number, received_slot,
):  # fmt: skip
    """The newest messages received by every activation of a slab: activation a fills
    ``received_slot[starts[a]:starts[a+1]]`` with the rows of the newest message of each neighbour, and
    ``received_number`` with their numbers.

    ``order`` and ``group``: see ``sort_by_node``. ``newest (m,)``: the number of every node's last message, this slab
    included; messages ``reach`` before it have arrived or are lost. A message is not received at the very moment it is
    sent, so the order of simultaneous activations does not matter.
    """
    # the loop over a share of the nodes is a function of its own: inside prange numba would count references to the
    # arrays in the innermost loop, synchronised with the other threads
    count_nodes = group.size - 1
    for share in numba.prange(shares):
        find_newest_between(
            share * count_nodes // shares, (share + 1) * count_nodes // shares, order, group, nodes, times, starts,
            offsets, neighbours, streams, newest, reach, ring_time, ring_slot, held_number, held_slot, since, law,
            offset, trace, shortest, rates, crashed, crashed_first, cut, cut_first, received_number, received_slot,
        )  # fmt: skip


@compiled
def ages_to_check(newest, reach, ring_time, arrived_until):
    """How many of every node's last messages must be checked, if all that were sent by ``arrived_until`` have
    arrived."""
    mask = ring_time.shape[1] - 1
    for age in range(reach):
        latest = 0.0
        for j in range(newest.size):
            if newest[j] >= age:
                latest = max(latest, ring_time[j, (newest[j] - age) & mask])
        if latest <= arrived_until:
            return age + 1
    return reach


@compiled_parallel
def recent_messages(newest, ring_time, base, times, keys):
    """The last messages of every node, newest first: ``times[j, a]`` is when node j sent its message ``newest[j] - a``,
    in ticks from ``base`` on, and ``keys[j, a]`` the key of its number. The number of columns is a multiple of 8."""
    mask = ring_time.shape[1] - 1
    for j in numba.prange(newest.size):
        for a in range(times.shape[1]):
            number = newest[j] - a
            ticks = np.int64((ring_time[j, number & mask] - base) * TICKS)
            # a message that does not exist never arrives
            times[j, a] = max(ticks, LONG_AGO) if number >= 0 and a <= mask else FAR_AHEAD
            keys[j, a] = number_key(number)


@compiled
def record_sent(nodes, numbers, times, rows, ring_time, ring_slot):
    """Record the times at which the activations of a slab send their messages, and their rows in the pool."""
    mask = ring_time.shape[1] - 1
    for a in range(nodes.size):
        ring_time[nodes[a], numbers[a] & mask] = times[a]
        ring_slot[nodes[a], numbers[a] & mask] = rows[a]


def _arrived_of_eight(typing_context, times, keys, place, edge_key, low, step, count, now):
    """Which of the eight messages at ``times.ravel()[place:place+8]`` have arrived on an edge at tick ``now``, as bits.

    The delay is ``low`` ticks plus ``step`` times one of ``count`` numbers; see ``delay`` in core/faults.py. Written as
    vector instructions, which take a tenth of the time of the loop.
    """

    def build(context, builder, signature, args):
        word, wide = ir.VectorType(ir.IntType(32), 8), ir.VectorType(ir.IntType(64), 8)
        times, keys = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 1))
        place, edge_key, low, step, count, now = args[2:]

        def load(data):
            return builder.load(builder.bitcast(builder.gep(data, [place]), word.as_pointer()), align=4)

        def splat(value, kind=word):
            one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
            return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(word, [0] * 8))

        def mix(x, shift, factor=None):
            x = builder.xor(x, builder.lshr(x, ir.Constant(word, [shift] * 8)))
            return x if factor is None else builder.mul(x, ir.Constant(word, [int(factor)] * 8))

        sent, late = load(times.data), splat(now)
        bits = mix(mix(mix(builder.xor(load(keys.data), splat(edge_key)), 16, FACTOR_1_32), 15, FACTOR_2_32), 16)
        product = builder.mul(builder.zext(bits, wide), splat(builder.zext(count, ir.IntType(64)), wide))
        choice = builder.trunc(builder.lshr(product, ir.Constant(wide, [32] * 8)), word)
        arrives = builder.add(builder.add(sent, splat(low)), builder.mul(splat(step), choice))
        here = builder.and_(builder.icmp_signed("<=", arrives, late), builder.icmp_signed("<", sent, late))
        return builder.zext(builder.bitcast(here, ir.IntType(8)), ir.IntType(32))

    small = types.int32
    return types.uint32(times, keys, types.intp, types.uint32, small, small, types.uint32, small), build


_arrived_of_eight_bits: Any = intrinsic(_arrived_of_eight)


def _lowest_bit(typing_context, bits):
    """The position of the lowest bit that is set."""

    def build(context, builder, signature, args):
        return builder.zext(builder.cttz(args[0], ir.IntType(1)(1)), ir.IntType(64))

    return types.int64(types.uint32), build


_index_of_lowest_bit: Any = intrinsic(_lowest_bit)


@compiled
def newest_arrived(j, edge_key, times, keys, low, step, count, now):
    """The age of the newest message of node j that has arrived by tick ``now`` on the edge with this key, or -1."""
    width = times.shape[1]
    for block in range(0, width, 8):
        bits = _arrived_of_eight_bits(times, keys, j * width + block, edge_key, low, step, count, now)
        if bits:
            return block + _index_of_lowest_bit(bits)
    return np.int64(-1)


@compiled
def find_newest_fast_between(
    begin, end, order, group, nodes, times, starts, offsets, neighbours, edge_keys, newest, base, recent_times,
    recent_keys, low, step, count, held_number, held_slot, ring_slot, received_number, received_slot,
):  # fmt: skip
    """``find_newest_fast`` for the nodes ``begin`` to ``end`` of the list."""
    mask = ring_slot.shape[1] - 1
    for g in range(begin, end):
        for place in range(group[g], group[g + 1]):
            a = order[place]
            i = nodes[a]
            now = np.int32((times[a] - base) * TICKS)
            shift = starts[a] - offsets[i]
            for e in range(offsets[i], offsets[i + 1]):
                j = np.int64(neighbours[e])
                age = newest_arrived(j, edge_keys[e], recent_times, recent_keys, low, step, count, now)
                number = newest[j] - age
                if age >= 0 and number > held_number[e]:
                    held_number[e] = number
                    held_slot[e] = ring_slot[j, number & mask]
                if received_slot.size:
                    received_number[shift + e] = held_number[e]
                    received_slot[shift + e] = held_slot[e]


@compiled_parallel
def find_newest_fast(
    shares, order, group, nodes, times, starts, offsets, neighbours, edge_keys, newest, base, recent_times,
    recent_keys, low, step, count, held_number, held_slot, ring_slot, received_number, received_slot,
):  # fmt: skip
    """``find_newest`` without faults and with evenly spaced delays: in integers, eight messages at once. If
    ``received_slot`` is empty, only ``held_number`` and ``held_slot`` are updated."""
    count_nodes = group.size - 1
    for share in numba.prange(shares):
        find_newest_fast_between(
            share * count_nodes // shares, (share + 1) * count_nodes // shares, order, group, nodes, times, starts,
            offsets, neighbours, edge_keys, newest, base, recent_times, recent_keys, low, step, count,
            held_number, held_slot, ring_slot, received_number, received_slot,
        )  # fmt: skip


@compiled
def mark_used_fast(neighbours, acted, held_number, held_slot, ring_slot, used):
    """``mark_used`` without faults: marks all rows that are held, and all newer than the oldest held of their sender.
    Returns the age of the oldest of these, counted in messages of its sender."""
    mask = ring_slot.shape[1] - 1
    oldest_held = acted - 1
    for e in range(neighbours.size):
        j = neighbours[e]
        oldest_held[j] = min(oldest_held[j], np.int64(held_number[e]))
        used[held_slot[e]] = True
    oldest = 0
    for j in range(acted.size):
        oldest = max(oldest, acted[j] - 1 - oldest_held[j])
        for number in range(oldest_held[j] + 1, acted[j]):
            used[ring_slot[j, number & mask]] = True
    return oldest


@compiled
def execution_levels(nodes, starts, offsets, neighbours, acted, index_of, received_number, level):
    """The order of execution: ``level[a]`` is above that of every activation of the slab that a depends on, which are
    its node's last one and those whose messages it received. Returns the number of levels.

    ``acted (m,)``: messages sent before this slab; message c of node j in it is activation ``index_of[j, c % R]``.
    """
    mask = index_of.shape[1] - 1
    own = np.full(offsets.size - 1, -1)
    highest = -1
    for a in range(nodes.size):
        i = nodes[a]
        rank = own[i] + 1
        for e in range(offsets[i], offsets[i + 1]):
            j = neighbours[e]
            number = received_number[starts[a] + e - offsets[i]]
            if number >= acted[j]:
                rank = max(rank, level[index_of[j, number & mask]] + 1)
        level[a] = rank
        own[i] = rank
        highest = max(highest, rank)
    return highest + 1


@compiled_parallel
def mark_used(
    now, offsets, neighbours, streams, acted, reach, ring_time, ring_slot, held_number, held_slot, since,
    law, offset, trace, rates, crashed, crashed_first, cut, cut_first, used,
):  # fmt: skip
    """Update every edge to time ``now``, mark the rows of the pool still needed, and return the age of the oldest
    message in transit, counted in messages of its sender."""
    mask = ring_time.shape[1] - 1
    oldest = np.zeros(offsets.size - 1, np.int64)
    for i in numba.prange(offsets.size - 1):
        for e in range(offsets[i], offsets[i + 1]):
            j = neighbours[e]
            lowest = max(np.int64(held_number[e]), acted[j] - 1 - reach)
            edge_offset, edge_trace = offset[e] if offset.size else 0.0, trace[e] if trace.size else 0
            for number in range(acted[j] - 1, lowest, -1):
                sent = ring_time[j, number & mask]
                time = arrival(
                    streams[e], e, number, sent, i, law, edge_trace, edge_offset, rates, crashed, crashed_first, cut,
                    cut_first,
                )  # fmt: skip
                if time > now:
                    if time < NEVER:
                        used[ring_slot[j, number & mask]] = True
                        oldest[i] = max(oldest[i], acted[j] - number)
                elif time >= since[i]:
                    held_number[e] = number
                    held_slot[e] = ring_slot[j, number & mask]
                    break
            used[held_slot[e]] = True
    return oldest.max()
