// Atoms and support points that move: values, gradients, barycentric projections and second derivatives.
//
// For one node with potential x (n,), atoms y_k of weight w_k, costs c in units of reg, and the share of support point l
// in atom k
//
//     s_lk = exp(x_l - c(z_l, y_k)) / Z_k,      Z_k = sum_l exp(x_l - c(z_l, y_k))
//
// the kernels add up over the atoms: w_k log Z_k, w_k s_lk, w_k s_lk y_k, and w_k s_lk s_jk.
//
// Atoms are taken in blocks. Where they are sorted by place, most support points are so far from a block that their
// shares in all of its atoms are below the rounding of the largest one. They are left out: x_l less the least cost to
// the box around the block is then CUT below the largest x_l less the largest cost.
#include <cmath>

#include "atoms.h"
#include "matmul.h"
#include "threads.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// atoms of a block
constexpr Index BLOCK = 64;
// the shares that are left out are below exp(-CUT); masses below FLOOR are computed again from all atoms
template <class T>
constexpr T CUT = sizeof(T) == 8 ? T(60) : T(34);
template <class T>
constexpr double FLOOR = sizeof(T) == 8 ? 1e-14 : 1e-8;
// of one pair of atom and support point
constexpr double NANOSECONDS = 1.0;

// The atoms of a node.
template <class T>
struct Atoms {
    Vector<const Index> index;
    Vector<const T> weight;
};

// The support points near a block: `count` of them, number j is point `places[j]`; with their potentials, and room for
// the shares of a block.
template <class T>
struct Near {
    Near(Index n, Index d) : places(n), x(padded(n)), support_t(d * n), shares(BLOCK * padded(n)) { shares.fill(0); }
    Buffer<Index> places;
    Buffer<T> x, support_t, shares;
    Index count = 0;
};

// The costs and potentials of the chosen places. Those of a matrix are not moved: all places are chosen.
template <class T>
INLINE GivenCost<T> packed(GivenCost<T> cost, Vector<const T> x, Near<T>& near) {
    near.count = x.size;
    for (Index l = 0; l < x.size; ++l) near.places[l] = l, near.x[l] = x[l];
    return cost;
}

template <class T>
INLINE SquaredCost<T> packed(SquaredCost<T> cost, Vector<const T> x, Near<T>& near) {
    const Index d = cost.points.columns;
    for (Index j = 0; j < near.count; ++j) near.x[j] = x[near.places[j]];
    for (Index axis = 0; axis < d; ++axis) {
        T* z = near.support_t.data + axis * near.count;
        for (Index j = 0; j < near.count; ++j) z[j] = cost.support_t(axis, near.places[j]);
    }
    return {Matrix<const T>{near.support_t.data, d, near.count}, cost.points};
}

// The points near a block. A cost matrix says nothing about boxes: all are.
template <class T>
INLINE GivenCost<T> choose(GivenCost<T> cost, Vector<const T> x, Vector<const Index>, Near<T>& near) {
    return packed(cost, x, near);
}

template <class T>
INLINE SquaredCost<T> choose(SquaredCost<T> cost, Vector<const T> x, Vector<const Index> index, Near<T>& near) {
    const Index n = x.size, d = cost.points.columns;
    // the most and the least that an exponent can be in the block; `shares` is free for them
    T *most = near.shares.data, *least = near.shares.data + padded(n);
    for (Index l = 0; l < n; ++l) most[l] = least[l] = x[l];
    for (Index axis = 0; axis < d; ++axis) {
        T low = cost.points(index[0], axis), high = low;
        for (Index k = 1; k < index.size; ++k) {
            low = smaller(low, cost.points(index[k], axis));
            high = larger(high, cost.points(index[k], axis));
        }
        const T* z = cost.support_t.row(axis);
        for_lanes<T>(n, [&](auto l) {
            const auto below = low - load<T>(z, l), above = load<T>(z, l) - high;
            const auto nearest = highest(highest(below, above), splat<T, l.count>(0));
            const auto farthest = highest(absolute(below), absolute(above));
            store(most, l, fma(-nearest, nearest, load<T>(most, l)));
            store(least, l, fma(-farthest, farthest, load<T>(least, l)));
        });
    }
    const T bound = largest_of(least, n) - CUT<T>;
    near.count = 0;
    for (Index l = 0; l < n; ++l)
        if (most[l] >= bound) near.places[near.count++] = l;
    const auto packed_cost = packed(cost, x, near);
    // the columns beyond the last one are multiplied too
    const Index wide = padded(near.count);
    for (Index k = 0; k < BLOCK; ++k)
        for (Index j = near.count; j < wide; ++j) near.shares[k * wide + j] = 0;
    return packed_cost;
}

// Calls `use(first, count, top, total)` for each block of atoms, with the terms exp(x_l - c(z_l, y_k) - top_k) of the
// points near it in near.shares (count, padded near.count), and their sums.
template <class T, class Cost, class F>
INLINE void for_blocks(Cost cost, Vector<const T> x, Atoms<T> atoms, Near<T>& near, const F& use) {
    T top[BLOCK], total[BLOCK];
    for (Index first = 0; first < atoms.index.size; first += BLOCK) {
        const Index count = smaller(BLOCK, atoms.index.size - first);
        const auto index = atoms.index.slice(first, first + count);
        const auto costs = choose(cost, x, index, near);
        const Index wide = padded(near.count);
        const Vector<const T> potentials{near.x.data, near.count};
        for (Index k = 0; k < count; ++k) {
            const auto exact = exact_terms(costs, potentials, index[k], near.shares.data + k * wide);
            top[k] = exact.top, total[k] = exact.total;
        }
        use(first, count, top, total);
    }
}

// log_p_l = log sum_k w_k exp(x_l - c(z_l, y_k) - log Z_k) of the points in near.places, from all atoms, shifted by the
// largest term
template <class T, class Cost>
void log_masses(Cost cost, Vector<const T> x, Atoms<T> atoms, const double* log_z, Near<T>& near, double* log_p) {
    const auto costs = packed(cost, x, near);
    const Buffer<double> tops(near.count), totals(near.count), shifts(atoms.index.size);
    tops.fill(-1e300);
    totals.fill(0.0);
    for (Index k = 0; k < atoms.index.size; ++k) {
        shifts[k] = std::log(static_cast<double>(atoms.weight[k])) - log_z[k];
        for_lanes<double>(near.count, [&](auto j) {
            const auto term = convert<double>(costs.exponents(near.x.data, atoms.index[k], j)) + shifts[k];
            store(tops.data, j, highest(load<double>(tops.data, j), term));
        });
    }
    for (Index k = 0; k < atoms.index.size; ++k)
        for_lanes<double>(near.count, [&](auto j) {
            const auto term = convert<double>(costs.exponents(near.x.data, atoms.index[k], j)) + shifts[k];
            store(totals.data, j, load<double>(totals.data, j) + exp(term - load<double>(tops.data, j)));
        });
    for (Index j = 0; j < near.count; ++j) log_p[near.places[j]] = tops[j] + std::log(totals[j]);
}

// nanoseconds of a row, roughly
double row_time(Vector<const Index> start, Vector<const Index> stop, Index n) {
    Index pairs = 0;
    for (Index i = 0; i < start.size; ++i) pairs += (stop[i] - start[i]) * n;
    return NANOSECONDS * static_cast<double>(pairs) / static_cast<double>(larger<Index>(start.size, 1));
}

// f(cost, row, its atoms, near) for every row, in parallel
template <class T, class F>
INLINE void for_nodes(Index n, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                      Vector<const Index> index, Vector<const T> weight, Vector<const Index> start,
                      Vector<const Index> stop, double work, const F& f) {
    with_cost(support_t, points, cost, [&](auto costs) {
        parallel(start.size, work * row_time(start, stop, n), [&](Index begin, Index end) {
            Near<T> near(n, points.columns);
            for (Index i = begin; i < end; ++i)
                f(costs, i, Atoms<T>{index.slice(start[i], stop[i]), weight.slice(start[i], stop[i])}, near);
        });
    });
}

}  // namespace

// value (b,) = sum_k w_k log Z_k and log_p (b, n) = log sum_k w_k s_lk at x (b, n); row i has the atoms start[i] to
// stop[i] of `index`, rows of the table `points` (U, d), with `weight`. The other arrays are as in atoms.cpp.
template <class T>
void evaluate_moving(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                     Vector<const Index> index, Vector<const T> weight, Vector<const Index> start,
                     Vector<const Index> stop, Vector<double> value, Matrix<double> log_p) {
    const Index n = x.columns;
    for_nodes(n, support_t, points, cost, index, weight, start, stop, 1.0,
              [&](auto costs, Index i, Atoms<T> atoms, Near<T>& near) {
        const Buffer<double> log_z(atoms.index.size), p(n);
        const Buffer<T> masses(padded(n));
        p.fill(0);
        double sum = 0.0, mass = 0.0;
        for_blocks(costs, x[i], atoms, near, [&](Index first, Index count, const T* top, const T* total) {
            const Index wide = padded(near.count);
            for_lanes<T>(near.count, [&](auto j) { store(masses.data, j, splat<T, j.count>(0)); });
            for (Index k = 0; k < count; ++k) {
                const T factor = atoms.weight[first + k] / total[k];
                const T* line = near.shares.data + k * wide;
                for_lanes<T>(near.count, [&](auto j) {
                    store(masses.data, j, fma(factor, load<T>(line, j), load<T>(masses.data, j)));
                });
                log_z[first + k] = static_cast<double>(top[k]) + std::log(static_cast<double>(total[k]));
                sum += static_cast<double>(atoms.weight[first + k]) * log_z[first + k];
                mass += static_cast<double>(atoms.weight[first + k]);
            }
            for (Index j = 0; j < near.count; ++j) p[near.places[j]] += static_cast<double>(masses[j]);
        });
        value[i] = sum;
        near.count = 0;
        for (Index l = 0; l < n; ++l)
            if (p[l] > FLOOR<T> * mass)
                log_p(i, l) = std::log(p[l]);
            else
                near.places[near.count++] = l;
        if (near.count) log_masses(costs, x[i], atoms, log_z.data, near, log_p.row(i));
    });
}

// For every row i of x (b, n), into sums (b, 1 + d, n):
//
//     sums[i, 0, l] = sum_k w_k s_lk,      sums[i, 1 + a, l] = sum_k w_k s_lk y_ka
//
// with the rows y of `coordinates` (U, d), in any units: the mass of every support point, and its moments.
template <class T>
void project_atoms(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                   Matrix<const T> coordinates, Vector<const Index> index, Vector<const T> weight,
                   Vector<const Index> start, Vector<const Index> stop, Cube<T> sums) {
    const Index n = x.columns, d = coordinates.columns;
    for_nodes(n, support_t, points, cost, index, weight, start, stop, 1.0 + 0.1 * static_cast<double>(d),
              [&](auto costs, Index i, Atoms<T> atoms, Near<T>& near) {
        const Buffer<T> factors((1 + d) * BLOCK), part((1 + d) * padded(n));
        const Matrix<T> out = sums[i];
        for (Index j = 0; j < out.size(); ++j) out.data[j] = 0;
        for_blocks(costs, x[i], atoms, near, [&](Index first, Index count, const T*, const T* total) {
            const Index wide = padded(near.count);
            for (Index k = 0; k < count; ++k) {
                factors[k] = atoms.weight[first + k] / total[k];
                const T* y = coordinates.row(atoms.index[first + k]);
                for (Index a = 0; a < d; ++a) factors[(1 + a) * BLOCK + k] = factors[k] * y[a];
            }
            const Matrix<T> some = part.matrix(1 + d, wide);
            for (Index j = 0; j < some.size(); ++j) some.data[j] = 0;
            for (Index j = 0; j < wide; j += STRIP)
                add_strip<T>(factors.matrix(1 + d, BLOCK), near.shares.data, some, j, {0, count}, j, wide);
            for (Index a = 0; a <= d; ++a)
                for (Index j = 0; j < near.count; ++j) out(a, near.places[j]) += some(a, j);
        });
    });
}

// For every row i of x (b, n), into out (b, n, n):
//
//     out[i, l, j] = sum_k w_k s_lk s_jk      for j >= l; below the diagonal 0
//
// With the masses p, diag(p) - out[i] is the second derivative of the value.
template <class T>
void share_products(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                    Vector<const Index> index, Vector<const T> weight, Vector<const Index> start,
                    Vector<const Index> stop, Cube<double> out) {
    const Index n = x.columns;
    for_nodes(n, support_t, points, cost, index, weight, start, stop, 1.0 + 0.03 * static_cast<double>(n),
              [&](auto costs, Index i, Atoms<T> atoms, Near<T>& near) {
        const Buffer<T> factors(n * BLOCK), part(n * padded(n));
        const Matrix<double> sums = out[i];
        for (Index j = 0; j < sums.size(); ++j) sums.data[j] = 0;
        for_blocks(costs, x[i], atoms, near, [&](Index first, Index count, const T*, const T* total) {
            const Index wide = padded(near.count);
            for (Index k = 0; k < count; ++k) {
                T* line = near.shares.data + k * wide;
                const T scale = std::sqrt(atoms.weight[first + k]) / total[k];
                for_lanes<T>(near.count, [&](auto j) { store(line, j, scale * load<T>(line, j)); });
                for (Index j = 0; j < near.count; ++j) factors[j * BLOCK + k] = line[j];
            }
            const Matrix<T> some = part.matrix(near.count, wide);
            for (Index j = 0; j < some.size(); ++j) some.data[j] = 0;
            // of a strip of columns, the rows up to its last one
            for (Index j = 0; j < wide; j += STRIP)
                add_strip<T>(factors.matrix(smaller(j + STRIP, near.count), BLOCK), near.shares.data, some, j,
                             {0, count}, j, wide);
            for (Index l = 0; l < near.count; ++l)
                for (Index j = l; j < near.count; ++j)
                    sums(near.places[l], near.places[j]) += static_cast<double>(some(l, j));
        });
    });
}

#define INSTANCES(T)                                                                                                   \
    template void evaluate_moving<T>(Matrix<const T>, Matrix<const T>, Matrix<const T>, Matrix<const T>,               \
                                     Vector<const Index>, Vector<const T>, Vector<const Index>, Vector<const Index>,   \
                                     Vector<double>, Matrix<double>);                                                  \
    template void project_atoms<T>(Matrix<const T>, Matrix<const T>, Matrix<const T>, Matrix<const T>,                 \
                                   Matrix<const T>, Vector<const Index>, Vector<const T>, Vector<const Index>,         \
                                   Vector<const Index>, Cube<T>);                                                      \
    template void share_products<T>(Matrix<const T>, Matrix<const T>, Matrix<const T>, Matrix<const T>,                \
                                    Vector<const Index>, Vector<const T>, Vector<const Index>, Vector<const Index>,    \
                                    Cube<double>);
INSTANCES(double)
INSTANCES(float)

}  // namespace barymesh::INSTRUCTION_SET
