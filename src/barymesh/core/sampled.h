// Draws from measures that are weighted lists of components: discrete measures, Gaussians and their mixtures.
#pragma once

#include "random.h"

namespace barymesh::INSTRUCTION_SET {

// The measures of all nodes. Node i has the components first[i] to last[i], chosen by their cumulative weights.
// Component c is the point centres[c] (d,), plus roots[root[c]] (d, d) times d standard normal numbers if root[c] >= 0;
// the roots are lower triangular.
struct Components {
    Vector<const Index> first, last;
    Vector<const double> cumulative;
    Matrix<const double> centres;
    Vector<const Index> root;
    Cube<const double> roots;
};

// Fills `out` (M, d) with independent draws from the measure of a node, which has at least one component. They depend
// on (seed, node, activation) alone.
inline void draw(std::uint64_t seed, Index node, Index activation, const Components& of, Matrix<double> out) {
    const Index first = of.first[node], last = of.last[node];
    bool any_normal = false;
    for (Index c = first; c < last && !any_normal; ++c) any_normal = of.root[c] >= 0;
    if (any_normal) normals(random_stream(seed, NORMALS, node, activation), {out.data, out.size()});
    const std::uint64_t choices = random_stream(seed, CHOICES, node, activation);
    for (Index k = 0; k < out.rows; ++k) {
        Index low = first, high = last - 1;
        if (low < high) {
            const double level = unit(random_bits(choices, k)) * of.cumulative[high];
            while (low < high) {
                const Index middle = (low + high) / 2;
                if (of.cumulative[middle] < level)
                    low = middle + 1;
                else
                    high = middle;
            }
        }
        double* point = out.row(k);
        const double* centre = of.centres.row(low);
        if (of.root[low] < 0) {
            for (Index a = 0; a < out.columns; ++a) point[a] = centre[a];
            continue;
        }
        const auto matrix = of.roots[of.root[low]];
        // from the last axis down, because axis a needs the normal numbers of the axes before it
        for (Index a = out.columns - 1; a >= 0; --a) {
            double total = centre[a];
            for (Index b = 0; b <= a; ++b) total += matrix(a, b) * point[b];
            point[a] = total;
        }
    }
}

}  // namespace barymesh::INSTRUCTION_SET
