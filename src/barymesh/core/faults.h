// When a message arrives, if it does: a function of its edge, its number and the time it was sent alone.
//
// The delay of message `number` on an edge is drawn from 32 bits, a hash of the edge's stream and the number; its faults
// have further draws. Times are whole ticks, so the fast lookup in 32-bit integers (`find_newest_fast` in delivery.cpp)
// and the general one here agree exactly.
#pragma once

#include <cmath>

#include "messages.h"
#include "random.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// further random numbers of a message: for the delay, for the delay of its copy, and one for each kind of fault
enum Draw : Index { NORMAL, COPY_NORMAL, LOSS, COPY, HOLD, HOLD_LENGTH };
constexpr Index DRAWS = 8;
// added to the number of a message to draw the delay of its copy
constexpr Index COPY_NUMBER = Index(1) << 40;

struct Edge {
    std::uint64_t stream;
    Index number, receiver;
    double offset;
    Index trace;
};

INLINE Edge edge_of(const Edges& edges, const Delays& delays, Index e, Index receiver) {
    return {edges.streams[e], e, receiver, delays.offset.size ? delays.offset[e] : 0.0,
            delays.trace.size ? delays.trace[e] : 0};
}

// a bijection of 32-bit numbers with good mixing (Wellons' lowbias32), for one number or a vector of them
template <class V>
INLINE V mix_32(V x) {
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

// 32 bits from the number of a message, and 32 bits from the stream of an edge: delays are drawn from both
INLINE std::uint32_t number_key(Index number) {
    return static_cast<std::uint32_t>(mix(static_cast<std::uint64_t>(number)) >> 32);
}
INLINE std::uint32_t edge_key(std::uint64_t stream) { return static_cast<std::uint32_t>(stream >> 32); }

// a random number in (0, 1) of a message
INLINE double draw(std::uint64_t stream, Index message, Draw kind) {
    return unit(random_bits(stream, static_cast<std::uint64_t>(DRAWS * message + kind)));
}

INLINE double whole_ticks(double seconds) { return std::floor(seconds * TICKS) * (1.0 / TICKS); }

// whether the time lies in one of the item's spans
INLINE bool contains(const Spans& spans, Index item, double time) {
    if (!spans.times.rows) return false;
    bool inside = false;
    for (Index k = spans.first[item]; k < spans.first[item + 1]; ++k)
        inside = inside || (spans.times(k, 0) <= time && time < spans.times(k, 1));
    return inside;
}

// the time, or the end of the item's span that contains it
INLINE double end_of_span(const Spans& spans, Index item, double time) {
    if (!spans.times.rows) return time;
    for (Index k = spans.first[item]; k < spans.first[item + 1]; ++k)
        if (spans.times(k, 0) <= time && time < spans.times(k, 1)) time = spans.times(k, 1);
    return time;
}

// the delay of a message on an edge, or of its copy (0 or 1), without the offset of the edge; see DelayTable
INLINE double delay(const Edge& edge, Index message, Index copy, Vector<const double> law) {
    const auto count = static_cast<Index>(law[1]);
    const std::uint32_t bits = mix_32(edge_key(edge.stream) ^ number_key(message + copy * COPY_NUMBER));
    const double level = (static_cast<double>(bits) + 0.5) * 0x1p-32;
    switch (static_cast<int>(law[0])) {
        case SPACED:
            return law[2] + law[3] * static_cast<double>(std::uint64_t(bits) * std::uint64_t(count) >> 32);
        case CATEGORICAL: {
            Index k = 2;
            while (law[k + count] < level) ++k;
            return law[k];
        }
        case LOG_NORMAL: {
            const double radius = std::sqrt(-2.0 * log(level));
            const double angle = 4.0 * draw(edge.stream, message, copy ? COPY_NORMAL : NORMAL);
            return whole_ticks(law[2] * std::exp(law[3] * radius * sine_and_cosine(angle).cosine));
        }
        default: {  // TRACE
            const Index first = edge.trace >> 32, length = edge.trace & 0xFFFFFFFF;
            const auto start = static_cast<Index>(edge.stream % static_cast<std::uint64_t>(length));
            return law[2 + first + (start + message + copy) % length];
        }
    }
}

// how long a message is held up
INLINE double hold_up(const Edge& edge, Index message, Vector<const double> rates) {
    if (!(rates[2] > 0.0 && draw(edge.stream, message, HOLD) < rates[2])) return 0.0;
    return whole_ticks(rates[3] * draw(edge.stream, message, HOLD_LENGTH));
}

// when a message sent at time `sent` reaches the receiver of the edge; FOREVER if it is lost
double arrival(const Edge& edge, Index message, double sent, Vector<const double> law, const Faults& faults) {
    if (contains(faults.cut, edge.number, sent)) return FOREVER;
    const auto rates = faults.rates;
    if (rates[0] > 0.0 && draw(edge.stream, message, LOSS) < rates[0]) return FOREVER;
    double time = sent + edge.offset + delay(edge, message, 0, law) + hold_up(edge, message, rates);
    if (contains(faults.crashed, edge.receiver, time)) time = FOREVER;
    if (rates[1] > 0.0 && draw(edge.stream, message, COPY) < rates[1]) {
        const double second = sent + edge.offset + delay(edge, message, 1, law);
        if (!contains(faults.crashed, edge.receiver, second)) time = smaller(time, second);
    }
    return time;
}

}  // namespace
}  // namespace barymesh::INSTRUCTION_SET
