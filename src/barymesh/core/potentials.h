// A step of Sinkhorn's iteration for one node.
#pragma once

#include "simd.h"

namespace barymesh::INSTRUCTION_SET {

// x += size (target - h), with the mean of this step removed, all (n,); `centred`: then the mean of x too. No x leaves
// [-largest, largest], whatever the target is.
INLINE void move_potential(double size, const double* h, const double* target, double largest, bool centred,
                           Vector<double> x) {
    const double count = static_cast<double>(x.size);
    const auto step = [&](auto l) { return size * (load<double>(target, l) - load<double>(h, l)); };
    const double mean = sum_terms<double>(x.size, [&](auto total, auto l) { return total + step(l); }) / count;
    for_lanes<double>(x.size, [&](auto l) {
        const auto moved = load<double>(x.data, l) + (step(l) - mean);
        store(x.data, l, centred ? moved : clipped(moved, largest));
    });
    if (!centred) return;
    const double centre = sum_of(x.data, x.size) / count;
    for_lanes<double>(x.size, [&](auto l) { store(x.data, l, clipped(load<double>(x.data, l) - centre, largest)); });
}

}  // namespace barymesh::INSTRUCTION_SET
