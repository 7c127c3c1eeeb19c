// Mini-batch gradients: draw from every node's measure, then average the softmax over the draws.
//
// Row i of a batch belongs to activation activations[i] of node nodes[i]. Its draws y are numbered starts[i] to
// starts[i + 1], and fill
//
//     p[i] = mean over y of softmax(scale lam[i] - c(z, y)/reg)
//
// The kernels with Components draw for themselves. They have the squared cost: the support, the centres and the roots
// are divided by sqrt(reg).
#include "sampled.h"

#include "atoms.h"
#include "matmul.h"
#include "threads.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// of one pair of draw and support point
constexpr double NANOSECONDS = 1.0;

double row_time(Vector<const Index> starts, Index n) {
    const Index rows = larger<Index>(starts.size - 1, 1);
    return NANOSECONDS * static_cast<double>((starts[starts.size - 1] - starts[0]) * n) / static_cast<double>(rows);
}

Index most_draws(Vector<const Index> starts, Index begin, Index end) {
    Index most = 1;
    for (Index i = begin; i < end; ++i) most = larger(most, starts[i + 1] - starts[i]);
    return most;
}

INLINE void scaled(Vector<const double> lam, double scale, double* x) {
    for_lanes<double>(lam.size, [&](auto l) { store(x, l, scale * load<double>(lam.data, l)); });
}

// p (n,) = sum over the points first to last of softmax(x - c(z, y)); `terms` (n,) is scratch memory
template <class Cost>
void sum_of_softmax(Cost cost, Vector<const double> x, Index first, Index last, double* terms, Vector<double> p) {
    for (Index j = 0; j < p.size; ++j) p[j] = 0.0;
    const auto atom = [&](Index k) { return Atom<double>{first + k, 1.0}; };
    add_atoms(cost, x, last - first, atom, terms, p.data, [](Index, double, double) {});
}

// On a grid in two or more dimensions exp(x_z - |z - y|^2) = E_z k(z, y), where E = exp(x - max x) is the same for all
// draws y and k is a product over the axes: exponentials are needed along the axes only. The grid is treated as a matrix
// (rows, columns): its first axis, and all others.
//
// Underflow is detected: if the sum over all points is above TOO_SMALL, every term that matters is representable. Where
// it is not, the draw is computed again by `exact_terms`.
constexpr double TOO_SMALL = 1e-280;
// draws whose sums are computed together
constexpr Index DRAWS_AT_ONCE = 24;

using Axes = List<Vector<const double>>;

// out_j (n,), proportional to exp(-(z_j - y)^2) for the evenly spaced points z of an axis, 1 for the nearest
INLINE void along_axis(double y, Vector<const double> axis, double* out) {
    const double spacing = axis[smaller<Index>(1, axis.size - 1)] - axis[0];
    const double place = spacing > 0.0 ? (y - axis[0]) / spacing : 0.0;
    const double last = static_cast<double>(axis.size - 1);
    const double nearest = axis[static_cast<Index>(smaller(larger(place + 0.5, 0.0), last))] - y;
    const double top = nearest * nearest;
    for_lanes<double>(axis.size, [&](auto l) INLINED {
        const auto gap = load<double>(axis.data, l) - y;
        store(out, l, exp(top - gap * gap));
    });
}

// out (columns,): the product of `along_axis` over all axes but the first, in C order; `part` and `spare` (columns,)
// are scratch memory
void along_others(const double* point, const Axes& axes, double* part, double* spare, double* out) {
    const int last = axes.size - 1;
    Index size = axes[last].size;
    // the products alternate between two arrays, and end in `out`
    double *from = axes.size % 2 == 0 ? out : spare, *to = axes.size % 2 == 0 ? spare : out;
    along_axis(point[last], axes[last], from);
    for (int a = last - 1; a > 0; --a) {
        along_axis(point[a], axes[a], part);
        for (Index j = 0; j < axes[a].size; ++j)
            for_lanes<double>(size, [&](auto l) { store(to + j * size, l, part[j] * load<double>(from, l)); });
        size *= axes[a].size;
        double* swapped = from;
        from = to;
        to = swapped;
    }
}

// The memory for one node on a grid; rows of `columns` numbers are padded, as `matmul` needs it.
struct GridScratch {
    Index rows, columns, width = padded(columns);
    Buffer<double> x{rows * columns}, terms{rows * columns}, part{columns}, spare{columns};
    Buffer<double> row{DRAWS_AT_ONCE * rows}, shares{rows * DRAWS_AT_ONCE};
    Buffer<double> column{DRAWS_AT_ONCE * width}, partial{DRAWS_AT_ONCE * width};
    Buffer<double> shared{rows * width}, sums{rows * width}, part_sums{rows * width};
};

// p (n,) = the mean of softmax(x - |z - y|^2) over the points y (M, d), where x is in the scratch memory; `missed` (M,)
// is more of it.
//
// For a few draws at a time, with their factors along the first axis in `row` (draws, rows) and along the others in
// `column` (draws, columns), both sums are matrix products: total = sum((row @ E) * column) over the columns, and
// sums = (row / total)' @ column.
void grid_node(Matrix<const double> points, Matrix<const double> support_t, const Axes& axes,
               const GridScratch& scratch, Index* missed, Vector<double> p) {
    const Index rows = scratch.rows, columns = scratch.columns, width = scratch.width, n = p.size;
    const auto row = scratch.row.matrix(DRAWS_AT_ONCE, rows), shares = scratch.shares.matrix(rows, DRAWS_AT_ONCE),
               column = scratch.column.matrix(DRAWS_AT_ONCE, width),
               partial = scratch.partial.matrix(DRAWS_AT_ONCE, width), shared = scratch.shared.matrix(rows, width),
               sums = scratch.sums.matrix(rows, width), part_sums = scratch.part_sums.matrix(rows, width);
    const Vector<const double> x{scratch.x.data, n};
    double* terms = scratch.terms.data;
    const double top = largest_of(x.data, n);
    for_lanes<double>(n, [&](auto l) { store(terms, l, exp(load<double>(x.data, l) - top)); });
    for (Index r = 0; r < rows; ++r) std::memcpy(shared.row(r), terms + r * columns, columns * sizeof(double));
    Index misses = 0;
    for (Index start = 0; start < points.rows; start += DRAWS_AT_ONCE) {
        const Index draws = smaller(DRAWS_AT_ONCE, points.rows - start);
        for (Index s = 0; s < draws; ++s) {
            along_axis(points(start + s, 0), axes[0], row.row(s));
            along_others(points.row(start + s), axes, scratch.part.data, scratch.spare.data, column.row(s));
        }
        matmul<double>(row, shared, partial, {0, draws}, {0, columns}, {0, rows});
        for (Index s = 0; s < draws; ++s) {
            const double total = dot(partial.row(s), column.row(s), columns);
            if (!(total > TOO_SMALL)) missed[misses++] = start + s;
            const double share = total > TOO_SMALL ? 1.0 / total : 0.0;
            for (Index r = 0; r < rows; ++r) shares(r, s) = share * row(s, r);
        }
        matmul<double>(shares, column, start == 0 ? sums : part_sums, {0, rows}, {0, columns}, {0, draws});
        if (start > 0)
            for_lanes<double>(sums.size(), [&](auto l) {
                store(sums.data, l, load<double>(sums.data, l) + load<double>(part_sums.data, l));
            });
    }
    const double count = static_cast<double>(points.rows), factor = 1.0 / count;
    for (Index r = 0; r < rows; ++r)
        for_lanes<double>(columns, [&](auto l) {
            store(p.data + r * columns, l, factor * load<double>(sums.row(r), l) * load<double>(shared.row(r), l));
        });
    // draws whose whole mass is where x is far below its largest value
    for (Index k = 0; k < misses; ++k) {
        const auto exact = exact_terms(SquaredCost<double>{support_t, points}, x, missed[k], terms);
        const double share = 1.0 / (exact.total * count);
        for_lanes<double>(n, [&](auto l) {
            store(p.data, l, fma(share, load<double>(terms, l), load<double>(p.data, l)));
        });
    }
}

}  // namespace

// Row i fills points[starts[i] : starts[i + 1]] with draws, unless the measure of its node has no components.
void draw_points(std::uint64_t seed, Vector<const Index> nodes, Vector<const Index> activations,
                 Vector<const Index> starts, Vector<const Index> first, Vector<const Index> last,
                 Vector<const double> cumulative, Matrix<const double> centres, Vector<const Index> root,
                 Cube<const double> roots, Matrix<double> points) {
    const Components components{first, last, cumulative, centres, root, roots};
    parallel(nodes.size, row_time(starts, 20 * points.columns), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i)
            if (last[nodes[i]] > first[nodes[i]])
                draw(seed, nodes[i], activations[i], components,
                     {points.row(starts[i]), starts[i + 1] - starts[i], points.columns});
    });
}

// The gradients p (b, n) at lam (b, n) from given draws. For the squared cost, `points` (draws, d) are the draws divided
// by sqrt(reg); for others, `cost` (draws, n) are their costs divided by reg. The other one is empty.
void mean_softmax(Matrix<const double> lam, double scale, Matrix<const double> support_t, Matrix<const double> points,
                  Matrix<const double> cost, Vector<const Index> starts, Matrix<double> p) {
    with_cost(support_t, points, cost, [&](auto costs) {
        parallel(lam.rows, row_time(starts, lam.columns), [&](Index begin, Index end) {
            const Buffer<double> x(lam.columns), terms(lam.columns);
            for (Index i = begin; i < end; ++i) {
                scaled(lam[i], scale, x.data);
                sum_of_softmax(costs, {x.data, x.size}, starts[i], starts[i + 1], terms.data, p[i]);
                double* own_p = p.row(i);
                const double count = static_cast<double>(starts[i + 1] - starts[i]);
                for_lanes<double>(p.columns, [&](auto l) { store(own_p, l, load<double>(own_p, l) / count); });
            }
        });
    });
}

// `draw_points` and `mean_softmax` in one pass, for the squared cost.
void sampled_gradients(Matrix<const double> lam, double scale, Matrix<const double> support_t, std::uint64_t seed,
                       Vector<const Index> nodes, Vector<const Index> activations, Vector<const Index> starts,
                       Vector<const Index> first, Vector<const Index> last, Vector<const double> cumulative,
                       Matrix<const double> centres, Vector<const Index> root, Cube<const double> roots,
                       Matrix<double> p) {
    const Components components{first, last, cumulative, centres, root, roots};
    const Index n = lam.columns, d = centres.columns;
    parallel(nodes.size, row_time(starts, n), [&](Index begin, Index end) {
        const Buffer<double> memory(most_draws(starts, begin, end) * d), x(n), terms(n);
        for (Index i = begin; i < end; ++i) {
            const Index count = starts[i + 1] - starts[i];
            const auto points = memory.matrix(count, d);
            draw(seed, nodes[i], activations[i], components, points);
            scaled(lam[i], scale, x.data);
            sum_of_softmax(SquaredCost<double>{support_t, points}, {x.data, n}, 0, count, terms.data, p[i]);
            double* own_p = p.row(i);
            const double share = 1.0 / static_cast<double>(count);
            for_lanes<double>(n, [&](auto l) { store(own_p, l, share * load<double>(own_p, l)); });
        }
    });
}

// `sampled_gradients` on a grid in two or more dimensions, with the coordinates along its axes.
void sampled_grid_gradients(Matrix<const double> lam, double scale, Matrix<const double> support_t,
                            List<Vector<const double>> axes, std::uint64_t seed, Vector<const Index> nodes,
                            Vector<const Index> activations, Vector<const Index> starts, Vector<const Index> first,
                            Vector<const Index> last, Vector<const double> cumulative, Matrix<const double> centres,
                            Vector<const Index> root, Cube<const double> roots, Matrix<double> p) {
    const Components components{first, last, cumulative, centres, root, roots};
    const Index rows = axes[0].size, d = centres.columns;
    // the sums are products of matrices, without an exponential for each pair
    parallel(nodes.size, 0.3 * row_time(starts, lam.columns), [&](Index begin, Index end) {
        const GridScratch scratch{rows, lam.columns / rows};
        // the padding of the matrices on the right-hand side is multiplied too
        scratch.shared.fill(0.0);
        scratch.column.fill(0.0);
        const Index most = most_draws(starts, begin, end);
        const Buffer<double> memory(most * d);
        const Buffer<Index> missed(most);
        for (Index i = begin; i < end; ++i) {
            const auto points = memory.matrix(starts[i + 1] - starts[i], d);
            draw(seed, nodes[i], activations[i], components, points);
            scaled(lam[i], scale, scratch.x.data);
            grid_node(points, support_t, axes, scratch, missed.data, p[i]);
        }
    });
}

}  // namespace barymesh::INSTRUCTION_SET
