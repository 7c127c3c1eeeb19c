// Random draws of the schedules: when nodes act.
#include <cmath>

#include "random.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {

// out (b,): the waiting times before activation `counts` (b,) of the nodes (b,), in units of their mean: exponential if
// `jitter` is negative, else uniform within 1 -+ jitter, and the first one uniform on (0, 1).
void waiting_times(std::uint64_t seed, Vector<const Index> nodes, Vector<const Index> counts, double jitter,
                   Vector<double> out) {
    for (Index k = 0; k < nodes.size; ++k) {
        const double level = unit(random_bits(random_stream(seed, CLOCKS, nodes[k], counts[k]), 0));
        if (jitter < 0.0)
            out[k] = -std::log(level);
        else if (counts[k] == 0)
            out[k] = level;
        else
            out[k] = 1.0 + jitter * (2.0 * level - 1.0);
    }
}

// out (m,): a random order of the nodes 0 to m - 1 for a window (Fisher-Yates shuffle).
void permutation(std::uint64_t seed, Index window, Vector<Index> out) {
    for (Index k = 0; k < out.size; ++k) out[k] = k;
    const std::uint64_t stream = random_stream(seed, ORDERS, window, out.size);
    for (Index k = out.size - 1; k > 0; --k) {
        const Index chosen = static_cast<Index>(unit(random_bits(stream, k)) * static_cast<double>(k + 1));
        const Index swapped = out[k];
        out[k] = out[chosen];
        out[chosen] = swapped;
    }
}

}  // namespace barymesh::INSTRUCTION_SET
