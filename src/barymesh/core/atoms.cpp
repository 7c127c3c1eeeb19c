// Measures given by weighted atoms: samples, quadratures, histograms on their own points.
//
// For one node with potential lam, atoms y_k of weight w_k and x = lam / reg:
//
//     log Z_k  = log sum_l exp(x_l - c(z_l, y_k)/reg)
//     value    = sum_k w_k log Z_k
//     p_l      = sum_k w_k exp(x_l - c(z_l, y_k)/reg - log Z_k)
//
// One exponential for each pair. All terms are shifted by the largest one of their sum, so nothing overflows, and a sum
// is never zero. Where p_l itself is too small for ordinary arithmetic, its logarithm is computed by a second pass,
// which shifts over the atoms instead.
//
// Atom k is at point index[k] of a table. The cost is either squared Euclidean, computed on the fly from `support_t`
// (d, n) and the table `points` (U, d), or given as rows `cost` (U, n); the other one is empty. Both are already divided
// by reg (points by its square root). The kernels compute in the precision of their arrays.
#include "atoms.h"

#include <cmath>

#include "potentials.h"
#include "threads.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// below this p_l is computed again in the log domain
template <class T>
constexpr T SMALL = sizeof(T) == 8 ? T(1e-280) : T(1e-30);
// of one pair of atom and support point
constexpr double NANOSECONDS = 1.0;

// log p_l = log sum_k w_k exp(x_l - c(z_l, y_k) - log Z_k), shifted by the largest term over the atoms k
template <class T, class Cost>
void log_gradient(Cost cost, Vector<const T> x, Vector<const Index> index, Vector<const T> weight,
                  const double* log_z, double* log_p) {
    const Buffer<double> tops(x.size), totals(x.size);
    tops.fill(-1e300);
    totals.fill(0.0);
    const auto shift_of = [&](Index k) { return std::log(weight[k]) - log_z[k]; };
    const auto term = [&](Index k, double shift, auto l) {
        return convert<double>(cost.exponents(x.data, index[k], l)) + shift;
    };
    for (Index k = 0; k < index.size; ++k) {
        const double shift = shift_of(k);
        for_lanes<double>(x.size, [&](auto l) {
            store(tops.data, l, highest(load<double>(tops.data, l), term(k, shift, l)));
        });
    }
    for (Index k = 0; k < index.size; ++k) {
        const double shift = shift_of(k);
        for_lanes<double>(x.size, [&](auto l) {
            const auto total = load<double>(totals.data, l);
            store(totals.data, l, total + exp(term(k, shift, l) - load<double>(tops.data, l)));
        });
    }
    for_lanes<double>(x.size, [&](auto l) {
        store(log_p, l, load<double>(tops.data, l) + log(load<double>(totals.data, l)));
    });
}

template <class T>
struct Scratch {
    Buffer<T> x, terms;
    Buffer<double> log_z, totals;
};

// One node at x = scale lam: fills p (n,), and log_p (n,) unless it is empty; returns the value.
template <class T, class Cost>
double evaluate_node(Cost cost, Vector<const T> lam, T scale, Vector<const Index> index, Vector<const T> weight,
                     const Scratch<T>& scratch, T* p, Vector<double> log_p) {
    const Index n = lam.size, count = index.size;
    const Vector<const T> x{scratch.x.data, n};
    double *log_z = scratch.log_z.data, *totals = scratch.totals.data;
    for_lanes<T>(n, [&](auto l) {
        store(scratch.x.data, l, scale * load<T>(lam.data, l));
        store(p, l, splat<T, l.count>(0));
    });
    const auto atom = [&](Index k) { return Atom<T>{index[k], weight[k]}; };
    add_atoms(cost, x, count, atom, scratch.terms.data, p, [&](Index k, T shift, T total) {
        log_z[k] = shift;
        totals[k] = total;
    });
    for_lanes<double>(count, [&](auto l) {
        store(log_z, l, load<double>(log_z, l) + log(load<double>(totals, l)));
    });
    double value = 0.0;
    for (Index k = 0; k < count; ++k) value += static_cast<double>(weight[k]) * log_z[k];
    if (log_p.size == 0) return value;
    if (smallest_of(p, n) > SMALL<T>)
        for_lanes<double>(n, [&](auto l) { store(log_p.data, l, log(load<double>(p, l))); });
    else
        log_gradient(cost, x, index, weight, log_z, log_p.data);
    return value;
}

Index most_of(Vector<const Index> start, Vector<const Index> stop, Index begin, Index end) {
    Index most = 0;
    for (Index i = begin; i < end; ++i) most = larger(most, stop[i] - start[i]);
    return most;
}

// nanoseconds of a row, roughly
double row_time(Vector<const Index> start, Vector<const Index> stop, Index n) {
    Index pairs = 0;
    for (Index i = 0; i < start.size; ++i) pairs += (stop[i] - start[i]) * n;
    return NANOSECONDS * static_cast<double>(pairs) / static_cast<double>(larger<Index>(start.size, 1));
}

}  // namespace

// Values (b,) and gradients p (b, n) of a batch of nodes at scale lam (b, n); row i has the atoms start[i] to stop[i],
// with `weight` (N,). Their logarithms `log_p` (b, n) too, unless it is (b, 0).
template <class T>
void evaluate_atoms(Matrix<const T> lam, T scale, Matrix<const T> support_t, Matrix<const T> points,
                    Matrix<const T> cost, Vector<const Index> index, Vector<const T> weight, Vector<const Index> start,
                    Vector<const Index> stop, Vector<double> value, Matrix<T> p, Matrix<double> log_p) {
    with_cost(support_t, points, cost, [&](auto costs) {
        parallel(lam.rows, row_time(start, stop, lam.columns), [&](Index begin, Index end) {
            const Index most = most_of(start, stop, begin, end);
            const Scratch<T> scratch{Buffer<T>(lam.columns), Buffer<T>(lam.columns), Buffer<double>(most),
                                     Buffer<double>(most)};
            for (Index i = begin; i < end; ++i)
                value[i] = evaluate_node(costs, lam[i], scale, index.slice(start[i], stop[i]),
                                         weight.slice(start[i], stop[i]), scratch, p.row(i), log_p[i]);
        });
    });
}

// `steps` times x_i += target_i - log p_i(x_i), see `move_potential`, for the `rows` (b,) of x (k, n) and of `target` (k, n
// or more). Row k of the batch has the atoms start[k] to stop[k].
template <class T>
void approach_atoms(Vector<const Index> rows, Index steps, Matrix<const double> target, double largest, bool centred,
                    Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost, Vector<const Index> index,
                    Vector<const T> weight, Vector<const Index> start, Vector<const Index> stop, Matrix<double> x) {
    const Index n = x.columns;
    with_cost(support_t, points, cost, [&](auto costs) {
        parallel(rows.size, static_cast<double>(steps) * row_time(start, stop, n), [&](Index begin, Index end) {
            const Index most = most_of(start, stop, begin, end);
            const Scratch<T> scratch{Buffer<T>(n), Buffer<T>(n), Buffer<double>(most), Buffer<double>(most)};
            const Buffer<T> lam(n), p(n);
            const Buffer<double> h(n);
            for (Index k = begin; k < end; ++k)
                for (Index step = 0; step < steps; ++step) {
                    const Vector<double> own = x[rows[k]];
                    for_lanes<T>(n, [&](auto l) { store(lam.data, l, load<T>(own.data, l)); });
                    evaluate_node(costs, Vector<const T>{lam.data, n}, T(1), index.slice(start[k], stop[k]),
                                  weight.slice(start[k], stop[k]), scratch, p.data, h);
                    move_potential(1.0, h.data, target.row(rows[k]), largest, centred, own);
                }
        });
    });
}

// log Z_k of every atom: row i of x (b, n) fills `out` from first[i] on.
template <class T>
void atom_log_sums(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                   Vector<const Index> index, Vector<const Index> start, Vector<const Index> stop,
                   Vector<const Index> first, Vector<double> out) {
    with_cost(support_t, points, cost, [&](auto costs) {
        parallel(x.rows, row_time(start, stop, x.columns), [&](Index begin, Index end) {
            const Buffer<T> terms(x.columns);
            for (Index i = begin; i < end; ++i)
                for (Index k = start[i]; k < stop[i]; ++k) {
                    const auto exact = exact_terms(costs, x[i], index[k], terms.data);
                    out[first[i] + k - start[i]] = exact.top + std::log(exact.total);
                }
        });
    });
}

// out (U, n) = |z_l - y_k|^2 for the columns z of `support_t` (d, n) and the rows y of `points` (U, d)
template <class T>
void squared_costs(Matrix<const T> support_t, Matrix<const T> points, Matrix<T> out) {
    const Buffer<T> zero(out.columns);
    zero.fill(0);
    const SquaredCost<T> cost{support_t, points};
    const double time = NANOSECONDS * static_cast<double>(out.columns) * (1.0 + 0.1 * static_cast<double>(points.columns));
    parallel(out.rows, time, [&](Index begin, Index end) {
        for (Index k = begin; k < end; ++k)
            for_lanes<T>(out.columns, [&](auto l) { store(out.row(k), l, -cost.exponents(zero.data, k, l)); });
    });
}

template void evaluate_atoms<double>(Matrix<const double>, double, Matrix<const double>, Matrix<const double>,
                                     Matrix<const double>, Vector<const Index>, Vector<const double>,
                                     Vector<const Index>, Vector<const Index>, Vector<double>, Matrix<double>,
                                     Matrix<double>);
template void evaluate_atoms<float>(Matrix<const float>, float, Matrix<const float>, Matrix<const float>,
                                    Matrix<const float>, Vector<const Index>, Vector<const float>, Vector<const Index>,
                                    Vector<const Index>, Vector<double>, Matrix<float>, Matrix<double>);
template void approach_atoms<double>(Vector<const Index>, Index, Matrix<const double>, double, bool,
                                     Matrix<const double>, Matrix<const double>, Matrix<const double>,
                                     Vector<const Index>, Vector<const double>, Vector<const Index>,
                                     Vector<const Index>, Matrix<double>);
template void approach_atoms<float>(Vector<const Index>, Index, Matrix<const double>, double, bool, Matrix<const float>,
                                    Matrix<const float>, Matrix<const float>, Vector<const Index>, Vector<const float>,
                                    Vector<const Index>, Vector<const Index>, Matrix<double>);
template void atom_log_sums<double>(Matrix<const double>, Matrix<const double>, Matrix<const double>,
                                    Matrix<const double>, Vector<const Index>, Vector<const Index>, Vector<const Index>,
                                    Vector<const Index>, Vector<double>);
template void atom_log_sums<float>(Matrix<const float>, Matrix<const float>, Matrix<const float>, Matrix<const float>,
                                   Vector<const Index>, Vector<const Index>, Vector<const Index>, Vector<const Index>,
                                   Vector<double>);
template void squared_costs<double>(Matrix<const double>, Matrix<const double>, Matrix<double>);
template void squared_costs<float>(Matrix<const float>, Matrix<const float>, Matrix<float>);

}  // namespace barymesh::INSTRUCTION_SET
