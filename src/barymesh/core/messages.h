// Groups of arrays that describe simulated messages, as Python passes them: each is a tuple.
//
// The network: edge e in offsets[i] to offsets[i + 1] leads to receiver i from sender neighbours[e]. The last R messages
// of sender j are in its ring buffer: message c was sent at rings.time[j, c mod R], and is in row rings.slot[j, c mod R]
// of the pool. R is a power of two.
#pragma once

#include "arrays.h"

namespace barymesh {

// Virtual time: whole ticks of about a microsecond, so that sums and comparisons are exact.
constexpr double TICKS = 0x1p20;
// a time that never comes
constexpr double FOREVER = 1e300;

// a row of the pool has a multiple of so many numbers
constexpr int MESSAGE_COLUMNS = 16;

struct Edges {
    Vector<const Index> offsets;             // (m + 1,)
    Vector<const std::uint32_t> neighbours;  // (edges,): in ascending order for each receiver
    Vector<const std::uint64_t> streams;     // (edges,): of random numbers
    template <class F>
    bool fields(F f) {
        return f(offsets, neighbours, streams);
    }
};

enum DelayKind { SPACED, CATEGORICAL, LOG_NORMAL, TRACE };

// See DelayTable in scenario/delays.py.
struct Delays {
    Vector<const double> law;
    Vector<const double> offset;  // (edges,) or empty
    Vector<const Index> trace;    // (edges,) or empty
    template <class F>
    bool fields(F f) {
        return f(law, offset, trace);
    }
};

// Spans of time: those of item k are the rows first[k] to first[k + 1] of `times`, (start, stop) each.
struct Spans {
    Matrix<const double> times;
    Vector<const Index> first;
    template <class F>
    bool fields(F f) {
        return f(times, first);
    }
};

// See FaultTable in scenario/faults.py.
struct Faults {
    Vector<const double> rates;  // probabilities of a loss, a copy and a hold-up, and the longest hold-up in seconds
    Spans crashed;               // of nodes: they receive nothing
    Spans cut;                   // of edges: they carry nothing
    template <class F>
    bool fields(F f) {
        return f(rates, crashed.times, crashed.first, cut.times, cut.first);
    }
};

struct Rings {
    Matrix<double> time;        // (m, R)
    Matrix<std::int32_t> slot;  // (m, R)
    INLINE Index mask() const { return time.columns - 1; }
    template <class F>
    bool fields(F f) {
        return f(time, slot);
    }
};

// One message for each edge, or for each edge of each activation: its number among those of the sender, and its row.
struct Newest {
    Vector<std::int32_t> number, slot;
    template <class F>
    bool fields(F f) {
        return f(number, slot);
    }
};

// Activations in the order of time: activation a is of nodes[a] at times[a]. Those of node i are
// order[group[i]] to order[group[i + 1] - 1]. What activation a receives begins at starts[a] in a list for all.
struct Slab {
    Vector<const Index> nodes;
    Vector<const double> times;
    Vector<const Index> order, group, starts;
    template <class F>
    bool fields(F f) {
        return f(nodes, times, order, group, starts);
    }
};

}  // namespace barymesh
