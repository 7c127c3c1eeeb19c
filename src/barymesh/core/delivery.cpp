// The simulated delivery of messages: what each node has received by when.
//
// The arrival time of a message is a function of its address (seed, edge, number) and the time it was sent, so nothing
// is queued: at time t, a receiver finds the newest message of a neighbour by computing the arrival times, newest first.
// An edge stores two integers, never a vector. See messages.h for the arrays.
#include "faults.h"
#include "threads.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// nodes and edges are fetched from memory so long before their turn
constexpr Index AHEAD = 16;
// in ticks: so long ago that every message has arrived, and so late that none has
constexpr Index LONG_AGO = -(1 << 29), FAR_AHEAD = 1 << 29;

// Evenly spaced delays in ticks: `low`, plus `step` times one of `count` numbers.
struct Spacing {
    std::int32_t low, step;
    std::uint32_t count;
};

// floor(x * factor / 2^32)
template <class V>
INLINE V multiply_high(V x, std::uint32_t factor) {
    if constexpr (COUNT<V> == 1) {
        return static_cast<std::uint32_t>(std::uint64_t(x) * factor >> 32);
    } else {
        V out;
        for (int k = 0; k < COUNT<V>; ++k) out[k] = multiply_high(std::uint32_t(x[k]), factor);
        return out;
    }
}

// Whether messages have arrived by tick `now`, from the ticks at which they were sent, and the keys of their numbers and
// edges. A message is not received at the very moment it is sent.
template <class I, class U>
INLINE auto arrived(I sent, U keys, Spacing spacing, std::int32_t now) {
    const auto choice = __builtin_bit_cast(I, multiply_high(mix_32(keys), spacing.count));
    const auto arrives = sent + spacing.low + spacing.step * choice;
    return (arrives <= now) & (sent < now);
}

// Ages of messages: the newest message of a node has age 0.
struct Ages {
    Index first, stop;
    INLINE Index count() const { return stop - first; }
};

// Which of every node's last messages must be looked up, if all that were sent before `known` have arrived, and none that
// was sent after `possible`.
Ages ages_to_look_up(Vector<const Index> newest, Index reach, const Rings& rings, double known, double possible) {
    Index unsure = 0, first = reach;
    for (Index j = 0; j < newest.size; ++j) {
        const auto sent = [&](Index age) { return rings.time(j, (newest[j] - age) & rings.mask()); };
        const Index count = smaller(reach, newest[j] + 1);
        while (unsure < count && sent(unsure) >= known) ++unsure;
        while (first > count || (first > 0 && (sent(first - 1) <= possible || sent(first - 1) >= FOREVER))) --first;
    }
    const Index stop = smaller(unsure + 1, reach);
    return {smaller(first, stop), stop};
}

// One of the last messages of a node.
struct Recent {
    std::int32_t number, slot;
    std::int32_t sent;  // in ticks from `base` on
    std::uint32_t key;  // of the number
};

INLINE Recent recent_message(const Rings& rings, Index j, Index newest, Index age, double base) {
    const Index number = newest - age, place = number & rings.mask();
    const double time = rings.time(j, place);
    // a message that does not exist, or was never sent, never arrives
    const bool exists = number >= 0 && age <= rings.mask() && time < FOREVER;
    const Index sent = exists ? larger(static_cast<Index>((time - base) * TICKS), LONG_AGO) : FAR_AHEAD;
    return {static_cast<std::int32_t>(number), rings.slot(j, place), static_cast<std::int32_t>(sent),
            number_key(number)};
}

// The last messages of every node, for lookups on one edge at a time.
struct RecentByNode {
    // of one node, newest first
    static constexpr int EIGHT = 8;
    struct alignas(64) Block {
        std::int32_t sent[EIGHT];
        std::uint32_t key[EIGHT];
        std::int32_t number[EIGHT], slot[EIGHT];
    };
    Index blocks;  // for each node
    Buffer<Block> table;

    INLINE RecentByNode(Index nodes, Index ages) : blocks((ages + EIGHT - 1) / EIGHT), table(nodes * blocks) {}

    INLINE void fill(Index j, Index newest, Index first_age, const Rings& rings, double base) const {
        for (Index k = 0; k < blocks * EIGHT; ++k) {
            Block& block = table[j * blocks + k / EIGHT];
            const Recent message = recent_message(rings, j, newest, first_age + k, base);
            block.sent[k % EIGHT] = message.sent;
            block.key[k % EIGHT] = message.key;
            block.number[k % EIGHT] = message.number;
            block.slot[k % EIGHT] = message.slot;
        }
    }

    // updates the messages held on the edges to node i to tick `now`
    INLINE void look_up(Index i, std::int32_t now, Edges edges, Spacing spacing, Newest held) const {
        const Block* const all = table.data;
        const Index each = blocks, last = edges.neighbours.size - 1;
        for (Index e = edges.offsets[i]; e < edges.offsets[i + 1]; ++e) {
            const Block* const ahead = all + edges.neighbours[smaller(e + AHEAD, last)] * each;
            __builtin_prefetch(ahead->sent);
            __builtin_prefetch(ahead->number);
            const Block* const block = all + edges.neighbours[e] * each;
            const std::uint32_t key = edge_key(edges.streams[e]);
            std::int32_t number = -1, slot = 0;
            for (Index b = 0; b < each; ++b)
                if (const int k = newest_of_eight(block[b], key, spacing, now); k < EIGHT) {
                    number = block[b].number[k];
                    slot = block[b].slot[k];
                    break;
                }
            // no branch, which would be mispredicted every other time
            const std::int32_t newer = -static_cast<std::int32_t>(number > held.number[e]);
            held.number[e] += newer & (number - held.number[e]);
            held.slot[e] += newer & (slot - held.slot[e]);
        }
    }

    // the place of the first message in the block that has arrived by tick `now` on the edge with this key, or EIGHT
    INLINE static int newest_of_eight(const Block& block, std::uint32_t key, Spacing spacing, std::int32_t now) {
        constexpr int W = smaller(WIDTH<std::int32_t>, EIGHT);
        for (int at = 0; at < EIGHT; at += W) {
            const Lanes<W> l{at};
            const auto here =
                arrived(load<std::int32_t>(block.sent, l), load<std::uint32_t>(block.key, l) ^ key, spacing, now);
            // a byte for each message; in two steps, because compilers know no single one
            const auto bytes = convert<std::int8_t>(convert<std::int16_t>(here));
            std::uint64_t flags = 0;
            std::memcpy(&flags, &bytes, sizeof bytes);
            if (flags) return at + __builtin_ctzll(flags) / 8;
        }
        return EIGHT;
    }
};

// The last messages of every node of a complete network, for lookups on many edges at a time.
struct RecentByAge {
    Index nodes, ages;
    Buffer<std::int32_t> sent, number, slot;  // (ages, nodes)
    Buffer<std::uint32_t> key;

    INLINE RecentByAge(Index nodes, Index ages)
        : nodes(nodes), ages(ages), sent(ages * nodes), number(ages * nodes), slot(ages * nodes), key(ages * nodes) {}

    INLINE void fill(Index j, Index newest, Index first_age, const Rings& rings, double base) const {
        for (Index k = 0; k < ages; ++k) {
            const Recent message = recent_message(rings, j, newest, first_age + k, base);
            sent[k * nodes + j] = message.sent;
            key[k * nodes + j] = message.key;
            number[k * nodes + j] = message.number;
            slot[k * nodes + j] = message.slot;
        }
    }

    // updates the messages held on the edges to node i to tick `now`: those from the nodes before it, and after it
    INLINE void look_up(Index i, std::int32_t now, Edges edges, Spacing spacing, Newest held) const {
        look_up_run(0, i, edges.offsets[i], now, edges, spacing, held);
        look_up_run(i + 1, nodes - i - 1, edges.offsets[i] + i, now, edges, spacing, held);
    }

    // the same for `count` edges from e on, which lead from the nodes j, j + 1 ...
    INLINE void look_up_run(Index j, Index count, Index e, std::int32_t now, Edges edges, Spacing spacing,
                            Newest held) const {
        for_lanes<std::int32_t>(count, [&](auto l) INLINED {
            const Lanes<l.count> edge{e + l.at};
            const auto keys = convert<std::uint32_t>(load<std::uint64_t>(edges.streams.data, edge) >> 32);
            auto numbers = load<std::int32_t>(held.number.data, edge), slots = load<std::int32_t>(held.slot.data, edge);
            for (Index k = ages - 1; k >= 0; --k) {
                const Lanes<l.count> message{k * nodes + j + l.at};
                const auto own = load<std::int32_t>(number.data, message);
                const auto here = arrived(load<std::int32_t>(sent.data, message),
                                          load<std::uint32_t>(key.data, message) ^ keys, spacing, now);
                const auto newer = here & (own > numbers);
                numbers = select(newer, own, numbers);
                slots = select(newer, load<std::int32_t>(slot.data, message), slots);
            }
            store(held.number.data, edge, numbers);
            store(held.slot.data, edge, slots);
        });
    }
};

// `find_newest_fast` with a table of this kind for the messages of these ages
template <class Table>
void find_newest_in(Slab slab, Edges edges, Vector<const Index> newest, Ages ages, Rings rings, Newest held,
                    Spacing spacing, Newest received) {
    const Index nodes = newest.size;
    const double base = slab.times[0];
    const Table recent(nodes, ages.count());
    parallel(nodes, 5.0 * static_cast<double>(ages.count()), [&](Index begin, Index end) {
        for (Index j = begin; j < end; ++j) {
            const Index ahead = smaller(j + AHEAD, nodes - 1);
            __builtin_prefetch(&rings.time(ahead, newest[ahead] & rings.mask()));
            __builtin_prefetch(&rings.time(ahead, (newest[ahead] - ages.stop) & rings.mask()));
            __builtin_prefetch(&rings.slot(ahead, newest[ahead] & rings.mask()));
            recent.fill(j, newest[j], ages.first, rings, base);
        }
    });
    const auto work = [&](Index begin, Index end) {
        for (Index place = slab.group[begin]; place < slab.group[end]; ++place) {
            const Index a = slab.order[place], i = slab.nodes[a];
            const auto now = static_cast<std::int32_t>((slab.times[a] - base) * TICKS);
            recent.look_up(i, now, edges, spacing, held);
            if (received.slot.size) {
                const Index first = edges.offsets[i], count = edges.offsets[i + 1] - first;
                std::memcpy(&received.number[slab.starts[a]], &held.number[first], count * sizeof(std::int32_t));
                std::memcpy(&received.slot[slab.starts[a]], &held.slot[first], count * sizeof(std::int32_t));
            }
        }
    };
    parallel(nodes, 4.0 * static_cast<double>(slab.starts[slab.nodes.size]) / static_cast<double>(nodes), work);
}

}  // namespace

// Sorts the activations nodes (b,) of a slab, which are in the order of time, by node: see Slab. Also fills numbers
// (b,), the number of earlier activations of the node, acted[i] of them before the slab; and newest (m,), the number of
// every node's last activation, this slab included. Returns the largest number of activations of one node.
Index sort_by_node(Vector<const Index> nodes, Vector<const Index> acted, Vector<const Index> offsets,
                   Vector<Index> order, Vector<Index> group, Vector<Index> starts, Vector<Index> numbers,
                   Vector<Index> newest) {
    for (Index i = 0; i < acted.size; ++i) newest[i] = acted[i] - 1;
    starts[0] = 0;
    for (Index a = 0; a < nodes.size; ++a) {
        const Index i = nodes[a];
        numbers[a] = ++newest[i];
        starts[a + 1] = starts[a] + offsets[i + 1] - offsets[i];
    }
    Index most = 0;
    group[0] = 0;
    for (Index i = 0; i < acted.size; ++i) {
        const Index count = newest[i] + 1 - acted[i];
        group[i + 1] = group[i] + count;
        most = larger(most, count);
    }
    for (Index a = 0; a < nodes.size; ++a) order[group[nodes[a]] + numbers[a] - acted[nodes[a]]] = a;
    return most;
}

// Records the times at which the activations of a slab send their messages, and their rows in the pool.
void record_sent(Vector<const Index> nodes, Vector<const Index> numbers, Vector<const double> times,
                 Vector<const std::int32_t> rows, Rings rings) {
    for (Index a = 0; a < nodes.size; ++a) {
        rings.time(nodes[a], numbers[a] & rings.mask()) = times[a];
        rings.slot(nodes[a], numbers[a] & rings.mask()) = rows[a];
    }
}

// The newest messages received by every activation of a slab: activation a fills `received` from starts[a] on with the
// newest message of each neighbour. `held`: the newest message on each edge so far.
//
// `newest` (m,): the number of every node's last message, this slab included; messages `reach` before it have arrived or
// are lost. Receiver i gets none that arrived before since[i]. A message is not received at the very moment it is sent,
// so the order of simultaneous activations does not matter.
void find_newest(Slab slab, Edges edges, Vector<const Index> newest, Index reach, Rings rings, Newest held,
                 Vector<const double> since, Delays delays, double shortest, Faults faults, Newest received) {
    const auto work = [&](Index begin, Index end) {
        for (Index place = slab.group[begin]; place < slab.group[end]; ++place) {
            const Index a = slab.order[place], i = slab.nodes[a];
            const double now = slab.times[a];
            for (Index e = edges.offsets[i]; e < edges.offsets[i + 1]; ++e) {
                const Index j = edges.neighbours[e], lowest = larger<Index>(held.number[e], newest[j] - reach);
                const auto sent = [&](Index message) { return rings.time(j, message & rings.mask()); };
                const Edge edge = edge_of(edges, delays, e, i);
                Index message = newest[j];
                while (message > lowest && !(sent(message) + shortest <= now && sent(message) < now)) --message;
                for (; message > lowest; --message) {
                    const double time = arrival(edge, message, sent(message), delays.law, faults);
                    if (since[i] <= time && time <= now) {
                        held.number[e] = static_cast<std::int32_t>(message);
                        held.slot[e] = rings.slot(j, message & rings.mask());
                        break;
                    }
                }
                const Index out = slab.starts[a] + e - edges.offsets[i];
                received.number[out] = held.number[e];
                received.slot[out] = held.slot[e];
            }
        }
    };
    const Index nodes = newest.size;
    parallel(nodes, 50.0 * static_cast<double>(received.slot.size) / static_cast<double>(nodes), work);
}

// `find_newest` without faults and with evenly spaced delays: in integers, many messages at once. If `received` is
// empty, only `held` is updated.
void find_newest_fast(Slab slab, Edges edges, Vector<const Index> newest, Index reach, Rings rings, Newest held,
                      Vector<const double> law, Newest received) {
    if (slab.nodes.size == 0) return;
    const Spacing spacing{static_cast<std::int32_t>(law[2] * TICKS), static_cast<std::int32_t>(law[3] * TICKS),
                          static_cast<std::uint32_t>(law[1])};
    const double longest = law[2] + (law[1] - 1.0) * law[3], last = slab.times[slab.nodes.size - 1];
    const Ages ages = ages_to_look_up(newest, reach, rings, slab.times[0] - longest, last - law[2]);
    const bool complete = edges.neighbours.size == newest.size * (newest.size - 1);
    if (complete)
        find_newest_in<RecentByAge>(slab, edges, newest, ages, rings, held, spacing, received);
    else
        find_newest_in<RecentByNode>(slab, edges, newest, ages, rings, held, spacing, received);
}

// The order of execution: level[a] is above that of every activation of the slab that a depends on, which are its
// node's last one and those whose messages it received. Returns the number of levels. `acted` (m,): messages sent
// before this slab.
Index execution_levels(Slab slab, Edges edges, Vector<const Index> acted, Vector<const std::int32_t> received_number,
                       Vector<Index> level) {
    const Buffer<Index> own(acted.size);
    own.fill(-1);
    Index highest = -1;
    for (Index a = 0; a < slab.nodes.size; ++a) {
        const Index i = slab.nodes[a], first = edges.offsets[i];
        Index rank = own[i] + 1;
        for (Index e = first; e < edges.offsets[i + 1]; ++e) {
            const Index j = edges.neighbours[e], within = received_number[slab.starts[a] + e - first] - acted[j];
            if (within >= 0) rank = larger(rank, level[slab.order[slab.group[j] + within]] + 1);
        }
        level[a] = own[i] = rank;
        highest = larger(highest, rank);
    }
    return highest + 1;
}

// Updates every edge to time `now`, marks the rows of the pool still needed, and returns the age of the oldest message
// in transit, counted in messages of its sender. Otherwise as for `find_newest`; `acted` (m,): messages sent so far.
Index mark_used(double now, Edges edges, Vector<const Index> acted, Index reach, Rings rings, Newest held,
                Vector<const double> since, Delays delays, Faults faults, Vector<bool> used) {
    const Index nodes = acted.size;
    const Buffer<Index> oldest(nodes);
    oldest.fill(0);
    // several threads may mark the same row
    const auto mark = [&](std::int32_t row) { __atomic_store_n(&used[row], true, __ATOMIC_RELAXED); };
    const auto work = [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i)
            for (Index e = edges.offsets[i]; e < edges.offsets[i + 1]; ++e) {
                const Index j = edges.neighbours[e], lowest = larger<Index>(held.number[e], acted[j] - 1 - reach);
                const Edge edge = edge_of(edges, delays, e, i);
                for (Index message = acted[j] - 1; message > lowest; --message) {
                    const Index place = message & rings.mask();
                    const double time = arrival(edge, message, rings.time(j, place), delays.law, faults);
                    if (now < time && time < FOREVER) {
                        mark(rings.slot(j, place));
                        oldest[i] = larger(oldest[i], acted[j] - message);
                    } else if (since[i] <= time && time <= now) {
                        held.number[e] = static_cast<std::int32_t>(message);
                        held.slot[e] = rings.slot(j, place);
                        break;
                    }
                }
                mark(held.slot[e]);
            }
    };
    parallel(nodes, 100.0 * static_cast<double>(edges.neighbours.size) / static_cast<double>(nodes), work);
    return largest_of(oldest.data, nodes);
}

// `mark_used` without faults, once every edge is up to date: marks all rows that are held, and all newer than the oldest
// held of their sender. Returns the age of the oldest of these.
Index mark_used_fast(Edges edges, Vector<const Index> acted, Rings rings, Newest held, Vector<bool> used) {
    const Buffer<Index> oldest_held(acted.size);
    for (Index j = 0; j < acted.size; ++j) oldest_held[j] = acted[j] - 1;
    for (Index e = 0; e < edges.neighbours.size; ++e) {
        const Index j = edges.neighbours[e];
        oldest_held[j] = smaller<Index>(oldest_held[j], held.number[e]);
        used[held.slot[e]] = true;
    }
    Index oldest = 0;
    for (Index j = 0; j < acted.size; ++j) {
        oldest = larger(oldest, acted[j] - 1 - oldest_held[j]);
        for (Index message = oldest_held[j] + 1; message < acted[j]; ++message)
            if (const Index place = message & rings.mask(); rings.time(j, place) < FOREVER)
                used[rings.slot(j, place)] = true;
    }
    return oldest;
}

// Which of the activations nodes (b,) at times (b,) do not happen, because the node sleeps or is down.
void idle_activations(Vector<const Index> nodes, Vector<const double> times, Spans idle, Vector<bool> out) {
    for (Index a = 0; a < nodes.size; ++a) out[a] = contains(idle, nodes[a], times[a]);
}

// A round in which every node sends message `number` to all neighbours, from time `start` on: ends (m,), when the
// slowest message has reached each node, and sent (m,), how many were sent to it. Lost ones are sent again, after as
// long as they would have taken; idle nodes are waited for.
void round_ends(Index number, double start, Edges edges, Delays delays, Faults faults, Spans idle, Vector<double> ends,
                Vector<Index> sent) {
    const auto rates = faults.rates;
    const auto work = [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            ends[i] = end_of_span(idle, i, start);
            sent[i] = 0;
            for (Index e = edges.offsets[i]; e < edges.offsets[i + 1]; ++e) {
                const Edge edge = edge_of(edges, delays, e, i);
                double time = end_of_span(idle, edges.neighbours[e], start);
                // repeated attempts get numbers far from those of later rounds
                for (Index attempt = number; time < FOREVER; attempt += Index(1) << 32) {
                    time = end_of_span(faults.cut, e, time);
                    sent[i] += 1 + (rates[1] > 0.0 && draw(edge.stream, attempt, COPY) < rates[1]);
                    time = time + (edge.offset + delay(edge, attempt, 0, delays.law)) + hold_up(edge, attempt, rates);
                    const double later = end_of_span(faults.crashed, i, time);
                    const bool lost = rates[0] > 0.0 && draw(edge.stream, attempt, LOSS) < rates[0];
                    if (later == time && !lost) break;
                    time = later;
                }
                ends[i] = larger(ends[i], time);
            }
        }
    };
    const auto size = static_cast<double>(ends.size);
    parallel(ends.size, 50.0 * static_cast<double>(edges.neighbours.size) / size, work);
}

// The random stream of every directed edge, from sender (edges,) and receiver (edges,).
void edge_streams(std::uint64_t seed, Vector<const Index> sender, Vector<const Index> receiver,
                  Vector<std::uint64_t> out) {
    for (Index e = 0; e < out.size; ++e)
        out[e] = random_stream(seed, DELAYS, static_cast<std::uint64_t>(sender[e]),
                               static_cast<std::uint64_t>(receiver[e]));
}

// When each message arrives, FOREVER if it is lost: message numbers[k], sent at sent[k], on edge chosen[k] to
// receiver[k].
void arrival_times(Vector<const Index> numbers, Vector<const double> sent, Vector<const Index> chosen,
                   Vector<const Index> receiver, Edges edges, Delays delays, Faults faults, Vector<double> out) {
    for (Index k = 0; k < out.size; ++k) {
        const Edge edge = edge_of(edges, delays, chosen[k], receiver[k]);
        out[k] = arrival(edge, numbers[k], sent[k], delays.law, faults);
    }
}

}  // namespace barymesh::INSTRUCTION_SET
