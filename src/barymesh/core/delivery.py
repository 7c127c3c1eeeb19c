"""Compiled kernels of the simulated mail: who has received what by when.

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
from numba.extending import intrinsic

from barymesh.core.compiling import compiled, compiled_parallel
from barymesh.core.faults import FIRST_32, NEVER, SECOND_32, arrival, number_key
from barymesh.core.times import TICKS

# in ticks: so long ago that every message has arrived, and so far ahead that it never does
LONG_AGO, FAR_AHEAD = -(1 << 29), 1 << 29


@compiled
def sort_by_node(nodes, acted, offsets):
    """The activations ``nodes (b,)`` of a slab, which are in the order of time, node by node.

    Returns ``order (b,)`` and ``group``: ``order[group[g]:group[g+1]]`` are the activations of one node; ``numbers
    (b,)``: how often the node has acted before, ``acted (m,)`` being how often before the slab; ``starts (b + 1,)``:
    where each activation's messages begin in a list of all; ``newest (m,)``: the number of every node's last
    activation, this slab included; and the most activations of one node.
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
def look_between(
    begin, end, order, group, nodes, times, starts, offsets, neighbours, names, newest, reach, ring_time, ring_slot,
    held_number, held_slot, since, law, offset, trace, least, rates, deaf, deaf_first, cut, cut_first, found_number,
    found_slot,
):  # fmt: skip
    """``look`` for the nodes ``begin`` to ``end`` of the list."""
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
                    ring_time[j, number & mask] + least <= now and ring_time[j, number & mask] < now
                ):
                    number -= 1
                extra, tape = offset[e] if offset.size else 0.0, trace[e] if trace.size else 0
                best = lowest
                while number > lowest and best == lowest:
                    time = arrival(
                        names[e], e, number, ring_time[j, number & mask], i, law, tape, extra,
                        rates, deaf, deaf_first, cut, cut_first,
                    )  # fmt: skip
                    if time <= now and time >= since[i]:
                        best = number
                    number -= 1
                if best > lowest:
                    held_number[e] = best
                    held_slot[e] = ring_slot[j, best & mask]
                found_number[shift + e] = held_number[e]
                found_slot[shift + e] = held_slot[e]


@compiled_parallel
def look(
    shares, order, group, nodes, times, starts, offsets, neighbours, names, newest, reach, ring_time, ring_slot,
    held_number, held_slot, since, law, offset, trace, least, rates, deaf, deaf_first, cut, cut_first, found_number,
    found_slot,
):  # fmt: skip
    """What every activation of a slab finds in its mail: activation a fills ``found_slot[starts[a]:starts[a+1]]`` with
    the rows of the newest message received from each neighbour, and ``found_number`` with their numbers.

    ``order`` lists the activations node by node, each node's in time, ``order[group[g]:group[g+1]]`` those of one node.
    ``newest (m,)`` numbers every node's last message, those of this slab included; messages ``reach`` before it are
    known to have been received, or lost. A message sent at the very moment of
    looking is not seen, so the order of simultaneous activations does not matter.
    """
    # ``shares`` of the nodes, in a function of its own: inside prange numba would count references to the arrays in the
    # innermost loop, in step with the other threads
    count_nodes = group.size - 1
    for share in numba.prange(shares):
        look_between(
            share * count_nodes // shares, (share + 1) * count_nodes // shares, order, group, nodes, times, starts,
            offsets, neighbours, names, newest, reach, ring_time, ring_slot, held_number, held_slot, since, law,
            offset, trace, least, rates, deaf, deaf_first, cut, cut_first, found_number, found_slot,
        )  # fmt: skip


@compiled
def ages_that_matter(newest, reach, ring_time, surely_there):
    """How many of every node's last messages must be looked at, if those sent by ``surely_there`` have all arrived."""
    mask = ring_time.shape[1] - 1
    for age in range(reach):
        latest = 0.0
        for j in range(newest.size):
            if newest[j] >= age:
                latest = max(latest, ring_time[j, (newest[j] - age) & mask])
        if latest <= surely_there:
            return age + 1
    return reach


@compiled_parallel
def recent(newest, ring_time, base, times, keys):
    """The last messages of every node, newest first: ``times[j, a]`` is when node j sent its message ``newest[j] - a``,
    in ticks from ``base`` on, and ``keys[j, a]`` the key of its number. There is room for a whole number of eights."""
    mask = ring_time.shape[1] - 1
    for j in numba.prange(newest.size):
        for a in range(times.shape[1]):
            number = newest[j] - a
            ticks = np.int64((ring_time[j, number & mask] - base) * TICKS)
            # a message that does not exist never arrives
            times[j, a] = max(ticks, LONG_AGO) if number >= 0 and a <= mask else FAR_AHEAD
            keys[j, a] = number_key(number)


@compiled
def announce(nodes, numbers, times, rows, ring_time, ring_slot):
    """Note when the activations of a slab send their messages, and the rows of the pool where they will be."""
    mask = ring_time.shape[1] - 1
    for a in range(nodes.size):
        ring_time[nodes[a], numbers[a] & mask] = times[a]
        ring_slot[nodes[a], numbers[a] & mask] = rows[a]


def _arrived_of_eight(typing_context, times, keys, place, edge_key, low, step, count, now):
    """Which of the eight messages at ``times.ravel()[place:place+8]`` have arrived on an edge at tick ``now``, as bits.

    The delay is ``low`` ticks and ``step`` times one of ``count`` numbers; see ``fate_kernels.delay``. Written as
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
        bits = mix(mix(mix(builder.xor(load(keys.data), splat(edge_key)), 16, FIRST_32), 15, SECOND_32), 16)
        product = builder.mul(builder.zext(bits, wide), splat(builder.zext(count, ir.IntType(64)), wide))
        choice = builder.trunc(builder.lshr(product, ir.Constant(wide, [32] * 8)), word)
        arrives = builder.add(builder.add(sent, splat(low)), builder.mul(splat(step), choice))
        here = builder.and_(builder.icmp_signed("<=", arrives, late), builder.icmp_signed("<", sent, late))
        return builder.zext(builder.bitcast(here, ir.IntType(8)), ir.IntType(32))

    small = types.int32
    return types.uint32(times, keys, types.intp, types.uint32, small, small, types.uint32, small), build


_arrived_of_eight_bits: Any = intrinsic(_arrived_of_eight)


def _lowest_bit(typing_context, bits):
    """The place of the lowest bit that is set."""

    def build(context, builder, signature, args):
        return builder.zext(builder.cttz(args[0], ir.IntType(1)(1)), ir.IntType(64))

    return types.int64(types.uint32), build


_place_of_lowest_bit: Any = intrinsic(_lowest_bit)


@compiled
def newest_arrived(j, edge_key, times, keys, low, step, count, now):
    """The age of the newest message of node j that has arrived at tick ``now`` on the edge of that key, or -1."""
    width = times.shape[1]
    for block in range(0, width, 8):
        bits = _arrived_of_eight_bits(times, keys, j * width + block, edge_key, low, step, count, now)
        if bits:
            return block + _place_of_lowest_bit(bits)
    return np.int64(-1)


@compiled
def look_fast_between(
    begin, end, order, group, nodes, times, starts, offsets, neighbours, edge_keys, newest, base, recent_times,
    recent_keys, low, step, count, held_number, held_slot, ring_slot, found_number, found_slot,
):  # fmt: skip
    """``look_fast`` for the nodes ``begin`` to ``end`` of the list."""
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
                if found_slot.size:
                    found_number[shift + e] = held_number[e]
                    found_slot[shift + e] = held_slot[e]


@compiled_parallel
def look_fast(
    shares, order, group, nodes, times, starts, offsets, neighbours, edge_keys, newest, base, recent_times,
    recent_keys, low, step, count, held_number, held_slot, ring_slot, found_number, found_slot,
):  # fmt: skip
    """``look`` where nothing goes wrong and delays are evenly spaced: in integers, eight messages at once. If
    ``found_slot`` is empty, only what is held is brought up to date."""
    count_nodes = group.size - 1
    for share in numba.prange(shares):
        look_fast_between(
            share * count_nodes // shares, (share + 1) * count_nodes // shares, order, group, nodes, times, starts,
            offsets, neighbours, edge_keys, newest, base, recent_times, recent_keys, low, step, count,
            held_number, held_slot, ring_slot, found_number, found_slot,
        )  # fmt: skip


@compiled
def keep_recent(neighbours, acted, held_number, held_slot, ring_slot, used):
    """Mark the rows of the pool still needed where nothing is lost: all that are held, and all newer than the oldest
    held of their sender. Returns the age of the oldest of these, counted in messages of its sender."""
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


@compiled_parallel
def settle(
    now, offsets, neighbours, names, acted, reach, ring_time, ring_slot, held_number, held_slot, since,
    law, offset, trace, rates, deaf, deaf_first, cut, cut_first, used,
):  # fmt: skip
    """Bring every edge up to time ``now``, mark the rows of the pool still needed, and return the age of the oldest
    message on its way, counted in messages of its sender."""
    mask = ring_time.shape[1] - 1
    oldest = np.zeros(offsets.size - 1, np.int64)
    for i in numba.prange(offsets.size - 1):
        for e in range(offsets[i], offsets[i + 1]):
            j = neighbours[e]
            lowest = max(np.int64(held_number[e]), acted[j] - 1 - reach)
            extra, tape = offset[e] if offset.size else 0.0, trace[e] if trace.size else 0
            for number in range(acted[j] - 1, lowest, -1):
                sent = ring_time[j, number & mask]
                time = arrival(
                    names[e], e, number, sent, i, law, tape, extra, rates, deaf, deaf_first, cut, cut_first
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
