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

from barymesh.compiling import compiled, compiled_inline, compiled_parallel
from barymesh.engines.fate_kernels import FIRST_32, NEVER, SECOND_32, arrival, mixed_32, number_key
from barymesh.network.ticks import TICKS

# parts into which the nodes are divided among the threads
SHARES = 64
# in ticks: so long ago, or so far ahead, that nothing else matters
LONG_AGO = -(1 << 29)
# columns summed at once: four registers of AVX2, enough to hide the latency of an addition
LANES = 16
# nodes with more neighbours than this are summed a few columns at a time, so that the columns stay in the cache
MANY_NEIGHBOURS = 32


@compiled
def sort_by_node(nodes, acted, offsets):
    """The activations ``nodes (b,)`` of a slab, which are in the order of time, node by node.

    Returns ``order (b,)`` and ``group``: ``order[group[g]:group[g+1]]`` are the activations of one node; ``numbers (b,)``:
    how often the node has acted before, ``acted (m,)`` being how often before the slab; ``starts (b + 1,)``: where each
    activation's messages begin in a list of all; ``newest (m,)``: the number of every node's last activation, this slab
    included; and the most activations of one node.
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
    begin, end, order, group, nodes, times, starts, offsets, neighbours, names, newest, reach, ring_time, ring_slot, held_number,
    held_slot, since, law, offset, trace, least, rates, deaf, deaf_first, cut, cut_first, found_number,
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
    order, group, nodes, times, starts, offsets, neighbours, names, newest, reach, ring_time, ring_slot, held_number,
    held_slot, since, law, offset, trace, least, rates, deaf, deaf_first, cut, cut_first, found_number,
    found_slot,
):  # fmt: skip
    """What every activation of a slab finds in its mail: activation a fills ``found_slot[starts[a]:starts[a+1]]`` with
    the rows of the newest message received from each neighbour, and ``found_number`` with their numbers.

    ``order`` lists the activations node by node, each node's in time, ``order[group[g]:group[g+1]]`` those of one node.
    ``newest (m,)`` numbers every node's last message, those of this slab included; messages ``reach`` before it are
    known to have been received, or lost. A message sent at the very moment of
    looking is not seen, so the order of simultaneous activations does not matter.
    """
    # shares of the nodes, in a function of its own: inside prange numba would count references to the arrays in the
    # innermost loop, in step with the other threads
    count_nodes = group.size - 1
    for share in numba.prange(SHARES):
        look_between(
            share * count_nodes // SHARES, (share + 1) * count_nodes // SHARES, order, group, nodes, times, starts, offsets, neighbours, names, newest, reach, ring_time, ring_slot, held_number, held_slot, since, law, offset, trace, least, rates, deaf, deaf_first, cut, cut_first, found_number, found_slot,
        )  # fmt: skip


@compiled
def recent(newest, reach, ring_time, base, enough, times, keys):
    """The messages that may matter in a slab, by age: ``times[a, j]`` is when node j sent its message ``newest[j] - a``,
    in ticks from ``base`` on, and ``keys[a, j]`` the key of its number. Returns how many ages there are: one that had
    all been sent before the tick ``enough`` is the last.
    """
    mask = ring_time.shape[1] - 1
    ages = 0
    latest = np.int64(1) << 40
    while ages < reach and latest > enough:
        latest = -(np.int64(1) << 40)
        for j in range(newest.size):
            number = newest[j] - ages
            ticks = LONG_AGO
            if number >= 0:
                ticks = max(np.int64((ring_time[j, number & mask] - base) * TICKS), LONG_AGO)
                latest = max(latest, ticks)
            # a message that does not exist never arrives
            times[ages, j] = ticks if number >= 0 else -LONG_AGO
            keys[ages, j] = number_key(max(number, 0))
        ages += 1
    return ages


@compiled_inline
def has_arrived(sent, edge_key, number_key, low, step, count, now):
    """Whether a message sent at tick ``sent`` is there at tick ``now``. Its delay is ``low`` ticks and ``step`` times one
    of ``count`` numbers."""
    bits = mixed_32(np.uint32(edge_key ^ number_key))
    choice = np.int32((np.uint64(bits) * np.uint64(count)) >> np.uint64(32))
    return (np.int32(np.int32(sent + low) + np.int32(step * choice)) <= now) & (sent < now)


@compiled
def newest_arrived(now, ages, neighbours, edge_keys, times, keys, low, step, count, age):
    """``age[q]``: the age of the newest message arrived at tick ``now`` on edge q, or ``ages`` if none has.

    ``neighbours``, ``edge_keys``: of these edges; ``times``, ``keys``: see ``recent``.
    """
    for q in range(age.size):
        j, found = neighbours[q], ages
        # from the oldest to the newest, so that the newest arrived is what stays, without a branch to mispredict
        for back in range(ages - 1, -1, -1):
            here = has_arrived(times[back, j], edge_keys[q], keys[back, j], low, step, count, now)
            found = back if here else found
        age[q] = found


def _eight_at_once(typing_context, first, sender, back, edge_keys, times, keys, low, step, count, now, age, q):
    """``age[q:q+8] = back`` where message ``back`` of nodes ``sender ...`` has arrived on edges ``first ...``: the formula
    of ``has_arrived`` as vector instructions, because LLVM does not find them by itself once the loop is inlined."""

    def build(context, builder, signature, args):
        word, wide = ir.VectorType(ir.IntType(32), 8), ir.VectorType(ir.IntType(64), 8)

        def array(k):
            return context.make_array(signature.args[k])(context, builder, args[k])

        def pointer(data, index):
            return builder.bitcast(builder.gep(data, [index]), word.as_pointer())

        def splat(value, kind=word):
            lane = ir.IntType(32)
            one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, lane(0))
            return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(word, [0] * 8))

        def mix(x, shift, factor=None):
            x = builder.xor(x, builder.lshr(x, ir.Constant(word, [shift] * 8)))
            return x if factor is None else builder.mul(x, ir.Constant(word, [int(factor)] * 8))

        first, sender, back = args[:3]
        low, step, count, now = args[6:10]
        keys, times = array(5), array(4)
        width = cgutils.unpack_tuple(builder, keys.shape)[1]
        place = builder.add(builder.mul(back, width), sender)
        sent = builder.load(pointer(times.data, place), align=4)
        bits = builder.xor(
            builder.load(pointer(array(3).data, first), align=4), builder.load(pointer(keys.data, place), align=4)
        )
        bits = mix(mix(mix(bits, 16, FIRST_32), 15, SECOND_32), 16)
        product = builder.mul(builder.zext(bits, wide), splat(builder.zext(count, ir.IntType(64)), wide))
        choice = builder.trunc(builder.lshr(product, ir.Constant(wide, [32] * 8)), word)
        arrives = builder.add(builder.add(sent, splat(low)), builder.mul(splat(step), choice))
        late = splat(now)
        here = builder.and_(builder.icmp_signed("<=", arrives, late), builder.icmp_signed("<", sent, late))
        target = pointer(array(10).data, args[11])
        found = builder.select(here, splat(builder.trunc(back, ir.IntType(32))), builder.load(target, align=4))
        builder.store(found, target, align=4)
        return context.get_dummy_value()

    whole, small = types.intp, types.int32
    kinds = (whole, whole, whole, edge_keys, times, keys, small, small, types.uint32, small, age, whole)
    return types.void(*kinds), build


_update_eight: Any = intrinsic(_eight_at_once)


@compiled
def newest_arrived_in_row(first, sender, now, ages, edge_keys, times, keys, low, step, count, age):
    """The same for edges ``first ...`` from ``sender, sender + 1, ...``, as in a complete graph: nothing to look up."""
    age[:] = ages
    eights = age.size // 8 * 8
    for back in range(ages - 1, -1, -1):
        for q in range(0, eights, 8):
            _update_eight(first + q, sender + q, back, edge_keys, times, keys, low, step, count, now, age, q)
        for q in range(eights, age.size):
            if has_arrived(
                times[back, sender + q], edge_keys[first + q], keys[back, sender + q], low, step, count, now
            ):
                age[q] = back


@compiled
def look_fast_between(
    begin, end, order, group, nodes, times, starts, offsets, neighbours, edge_keys, newest, base, ages, recent_times,
    recent_keys, low, step, count, held_number, held_slot, ring_slot, found_number, found_slot,
):  # fmt: skip
    """``look_fast`` for the nodes ``begin`` to ``end`` of the list."""
    mask = ring_slot.shape[1] - 1
    most = 0
    for g in range(begin, end):
        i = nodes[order[group[g]]]
        most = max(most, offsets[i + 1] - offsets[i])
    age = np.empty(most, np.int32)
    for g in range(begin, end):
        for place in range(group[g], group[g + 1]):
            a = order[place]
            i = nodes[a]
            now = np.int32((times[a] - base) * TICKS)
            start, degree = offsets[i], offsets[i + 1] - offsets[i]
            if degree == newest.size - 1:
                newest_arrived_in_row(
                    start, 0, now, ages, edge_keys, recent_times, recent_keys, low, step, count, age[:i]
                )  # fmt: skip
                newest_arrived_in_row(
                    start + i, i + 1, now, ages, edge_keys, recent_times, recent_keys, low, step, count, age[i:degree]
                )  # fmt: skip
            else:
                newest_arrived(
                    now, ages, neighbours[start : start + degree], edge_keys[start : start + degree], recent_times,
                    recent_keys, low, step, count, age[:degree],
                )  # fmt: skip
            shift = starts[a]
            for q in range(degree):
                e = start + q
                j = neighbours[e]
                number = newest[j] - age[q]
                if age[q] < ages and number > held_number[e]:
                    held_number[e] = number
                    held_slot[e] = ring_slot[j, number & mask]
                found_number[shift + q] = held_number[e]
                found_slot[shift + q] = held_slot[e]


@compiled_parallel
def look_fast(
    order, group, nodes, times, starts, offsets, neighbours, edge_keys, newest, base, ages, recent_times,
    recent_keys, low, step, count, held_number, held_slot, ring_slot, found_number, found_slot,
):  # fmt: skip
    """``look`` where nothing goes wrong and delays are evenly spaced: in integers, all messages of ``recent`` at
    once."""
    count_nodes = group.size - 1
    for share in numba.prange(SHARES):
        look_fast_between(
            share * count_nodes // SHARES, (share + 1) * count_nodes // SHARES, order, group, nodes, times, starts,
            offsets, neighbours, edge_keys, newest, base, ages, recent_times, recent_keys, low, step, count,
            held_number, held_slot, ring_slot, found_number, found_slot,
        )  # fmt: skip


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
