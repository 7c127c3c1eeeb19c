// The state of a spanning tree's nodes, and the header of their messages; decentralized/tree explains the fields.
#pragma once

#include "arrays.h"

// FIELD(name) for the fields of the header, in the order of their columns
#define HEADER_FIELDS(FIELD)                                                                                       \
    FIELD(SENDER) FIELD(EPOCH) FIELD(AWAY) FIELD(ROOT) FIELD(DISTANCE) FIELD(PARENT) FIELD(BEAT) FIELD(STAMP)      \
    FIELD(WHOLE) FIELD(RESIDUAL) FIELD(DONE) FIELD(ROUNDS) FIELD(WEIGHT) FIELD(ERROR) FIELD(OLDEST) FIELD(COVERED) \
    FIELD(CHECK) FIELD(CHILDREN)

// FIELD(type, name) for the fields of a Tree
#define TREE_FIELDS(FIELD)                                                                                         \
    FIELD(const Index, id) FIELD(const double, key) FIELD(const double, away) FIELD(double, epoch)                 \
    FIELD(double, root) FIELD(double, distance) FIELD(Index, parent) FIELD(double, parent_beat)                    \
    FIELD(double, stamp) FIELD(Index, age) FIELD(Index, quiet) FIELD(Index, patience) FIELD(double, lag)           \
    FIELD(Index, late) FIELD(double, late_stamps) FIELD(double, changed) FIELD(double, whole)                      \
    FIELD(double, residual) FIELD(double, done) FIELD(double, rounds) FIELD(Index, waited)                         \
    FIELD(double, allowance) FIELD(double, newcomer) FIELD(double, settled) FIELD(double, agreed)                  \
    FIELD(double, solved) FIELD(double, solved_epoch) FIELD(double, begun) FIELD(double, pace)                     \
    FIELD(const double, nodes) FIELD(const double, trusting) FIELD(const double, weight)

// FIELD(name) for what is found of a node that acts
#define FINDINGS(FIELD) FIELD(IN_ROUNDS) FIELD(FRESH) FIELD(KNOWN) FIELD(MOVING) FIELD(EXCESSIVE) FIELD(AT_ROOT)

namespace barymesh {

#define COLUMN(name) name,
enum HeaderField : Index { HEADER_FIELDS(COLUMN) HEADER };
enum Finding : Index { FINDINGS(COLUMN) };
#undef COLUMN

// the hosted nodes, each field (k,)
struct Tree {
#define VIEW(type, name) Vector<type> name;
    TREE_FIELDS(VIEW)
#undef VIEW
};

// no node is further from its root, and no beat later
constexpr double FAR = 0x1p53;
constexpr double NEVER_CHANGED = -2.0;
// no epoch is later; up to here its fraction keeps ten bits
constexpr double LAST_EPOCH = 0x1p43;
// A node follows epochs that are so much later than its own, and later ones only if most of its neighbours are there.
constexpr double STRIDE = 64.0;
// In a network of m nodes a node follows EPOCHS_AT_ONCE + 2 m epochs at once, and from then on each EPOCH_BEATS
// activations after the last.
constexpr double EPOCHS_AT_ONCE = 64.0, EPOCH_BEATS = 200.0;

}  // namespace barymesh
