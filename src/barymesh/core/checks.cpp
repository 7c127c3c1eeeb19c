// Checks of messages on arrival: whether anything is wrong. Python says what it is: transport/wire.py, and
// decentralized/tree/checks.py for the spanning tree, which has the rules.
#include "simd.h"
#include "tree.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

constexpr HeaderField WHOLE_FIELDS[] = {SENDER, AWAY, ROOT,   DISTANCE, PARENT,  BEAT,    STAMP,
                                        WHOLE,  DONE, ROUNDS, OLDEST,   COVERED, CHILDREN};

}  // namespace

// Whether lower_l <= v_l <= upper_l for all numbers of the rows v of `values` (b, n). A NaN is on neither side of a bound.
bool all_within(Matrix<const double> values, Vector<const double> lower, Vector<const double> upper) {
    double outside = 0.0;
    for (Index row = 0; row < values.rows; ++row)
        outside += sum_terms<double>(values.columns, [&](auto sum, auto l) {
            const auto value = load<double>(values.row(row), l);
            const auto one = splat<double, l.count>(1.0), zero = splat<double, l.count>(0.0);
            const auto below = select(value >= load<double>(lower.data, l), zero, one);
            return sum + select(value <= load<double>(upper.data, l), below, one);
        });
    return outside == 0.0;
}

// Whether a message of the node `sender` is possible, with numbers that are within their bounds: all of them, or, with
// empty `lower` and `upper`, those but its sums. Of the sender: its `key`; its `declared` weight, negative if there is
// none; its neighbours `around`, as (degree,) numbers; and `hops`, the links between it and the root that it claims.
// `lower` and `upper` (up,) bound the sums for each unit of weight.
bool is_possible(Vector<const double> message, Index sender, double key, double declared, Vector<const double> around,
                 double hops, Vector<const double> lower, Vector<const double> upper) {
    const double* header = message.data;
    for (const HeaderField field : WHOLE_FIELDS)
        if (header[field] != __builtin_floor(header[field])) return false;
    const double me = static_cast<double>(sender);
    if (header[SENDER] != me || header[ROOT] > key) return false;
    if (header[ROOT] == key) {
        if (header[DISTANCE] != 0.0 || header[PARENT] != me) return false;
    } else {
        bool linked = false;
        for (Index k = 0; k < around.size; ++k) linked |= around[k] == header[PARENT];
        if (!linked || header[DISTANCE] < hops) return false;
    }
    if (header[CHILDREN] > static_cast<double>(around.size)) return false;
    const double weight = header[WEIGHT];
    if (declared >= 0.0 && header[CHILDREN] == 0.0 && weight != 0.0 && weight != declared) return false;
    if (header[OLDEST] > header[STAMP] || header[DONE] > header[STAMP] + 1.0) return false;
    for (Index k = 0; k < lower.size; ++k) {
        const double sum = message[HEADER + k];
        if (!(sum >= weight * lower[k] && sum <= weight * upper[k])) return false;
    }
    return true;
}

}  // namespace barymesh::INSTRUCTION_SET
