// Steps of the methods, row by row over a batch of nodes, and what is measured of them.
#include <cmath>

#include "potentials.h"
#include "threads.h"
#include "vector_math.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// (theta_k / theta_last)^2 - 1 for indices k >= last with their excesses; see decentralized/baselines/theta.py
INLINE double square_change(Index k, double excess, Index last, double last_excess, Index m) {
    const double inverse = 0.5 * static_cast<double>(k - 1) + static_cast<double>(m) + excess;
    const double last_inverse = 0.5 * static_cast<double>(last - 1) + static_cast<double>(m) + last_excess;
    const double growth = 0.5 * static_cast<double>(k - last) + (excess - last_excess);
    return -growth * (inverse + last_inverse) / (inverse * inverse);
}

// out_l = exp(log_p_l - max log_p); returns the sum
INLINE double shifted_exponentials(Vector<const double> log_p, double* out) {
    const double top = largest_of(log_p.data, log_p.size);
    return sum_terms<double>(log_p.size, [&](auto sum, auto l) INLINED {
        const auto term = exp(load<double>(log_p.data, l) - top);
        store(out, l, term);
        return sum + term;
    });
}

// `l1_distance` with scratch memory p and q (n,)
double distance(Vector<const double> log_p, Vector<const double> log_q, double* p, double* q) {
    const double scale_p = 1.0 / shifted_exponentials(log_p, p), scale_q = 1.0 / shifted_exponentials(log_q, q);
    return sum_terms<double>(log_p.size, [&](auto sum, auto l) {
        return sum + absolute(scale_p * load<double>(p, l) - scale_q * load<double>(q, l));
    });
}

}  // namespace

// sum_l |p_l - q_l| for logarithms (n,) of measures, which need not be normalised.
double l1_distance(Vector<const double> log_p, Vector<const double> log_q) {
    const Buffer<double> memory(2 * log_p.size);
    return distance(log_p, log_q, memory.data, memory.data + log_p.size);
}

// `l1_distance` of the measures of the nodes (b,), whose logarithms are h (b, n), from their targets, the first n columns
// of `target` (k, n or more); `unknown` for nodes whose target is not known.
void l1_distances(Vector<const Index> nodes, Vector<const bool> known, double unknown, Matrix<const double> h,
                  Matrix<const double> target, Vector<double> out) {
    const auto work = [&](Index begin, Index end) {
        const Buffer<double> p(h.columns), q(h.columns);
        for (Index row = begin; row < end; ++row)
            out[row] = known[row] ? distance(h[row], target[nodes[row]].slice(0, h.columns), p.data, q.data) : unknown;
    };
    parallel(nodes.size, static_cast<double>(h.columns) * 2.0, work);
}

// The `relaxation` (k,) of the nodes (b,) becomes `less` times as large where their errors (b,) exceed their last ones,
// `error` (k,), and `more` times where not, between `least` and `most`; the last errors are the new ones then.
void adapt_relaxations(Vector<const Index> nodes, Vector<const double> errors, double less, double more, double least,
                       double most, Vector<double> error, Vector<double> relaxation) {
    for (Index row = 0; row < nodes.size; ++row) {
        const Index i = nodes[row];
        const double size = (errors[row] > error[i] ? less : more) * relaxation[i];
        relaxation[i] = smaller(larger(size, least), most);
        error[i] = errors[row];
    }
}

// `move_potential` with x_i += relaxation_i (target_i - h_i) for the rows `nodes` (b,) of all but h (b, n); `target` (k, n
// or more).
void move_potentials(Vector<const Index> nodes, Vector<const double> relaxation, Matrix<const double> h,
                     Matrix<const double> target, double largest, bool centred, Matrix<double> x) {
    const auto work = [&](Index begin, Index end) {
        for (Index row = begin; row < end; ++row) {
            const Index i = nodes[row];
            move_potential(relaxation[i], h.row(row), target.row(i), largest, centred, x[i]);
        }
    };
    parallel(nodes.size, static_cast<double>(h.columns) * 0.5, work);
}

// The accelerated methods: moves the nodes (b,) from the theta of their `last_index` (k,) to that of `index` (b,), whose
// square is 1 + rise times as large: omega += rise momentum, momentum *= 1 + rise. `size`: the number of nodes, m.
//
// Fills lam (b, n) with the points at which to evaluate the oracle, the new ones, or the old ones if naive; and `share`
// (b,) with m theta.
void accelerated_points(Matrix<double> omega, Matrix<double> momentum, Vector<Index> last_index,
                        Vector<double> last_excess, Vector<const Index> nodes, Vector<const Index> index,
                        Vector<const double> excess, Index size, Vector<const double> scale, bool naive,
                        Matrix<double> lam, Vector<double> share) {
    const auto work = [&](Index begin, Index end) {
        for (Index row = begin; row < end; ++row) {
            const Index i = nodes[row];
            const double rise = square_change(index[row], excess[row], last_index[i], last_excess[i], size);
            last_index[i] = index[row];
            last_excess[i] = excess[row];
            const double m = static_cast<double>(size);
            share[row] = m / (0.5 * static_cast<double>(index[row] - 1) + m + excess[row]);
            double *point = omega.row(i), *speed = momentum.row(i), *own_lam = lam.row(row);
            const double factor = scale[i];
            for_lanes<double>(omega.columns, [&](auto l) {
                const auto before = load<double>(point, l), change = rise * load<double>(speed, l);
                const auto after = before + change;
                store(point, l, after);
                store(speed, l, load<double>(speed, l) + change);
                store(own_lam, l, factor * (naive ? before : after));
            });
        }
    };
    parallel(nodes.size, static_cast<double>(omega.columns) * 0.5, work);
}

// The step of the accelerated methods along counts g - totals, the node's row of the Laplacian applied to the gradients
// g (b, n): omega -= step slope, momentum += step (1 - m theta) / (m theta) slope, with m theta in `share` (b,).
void accelerated_step(Matrix<double> omega, Matrix<double> momentum, Vector<const Index> nodes, double step,
                      Vector<const double> share, Matrix<const double> g, Matrix<const double> totals,
                      Vector<const Index> counts) {
    const auto work = [&](Index begin, Index end) {
        for (Index row = begin; row < end; ++row) {
            const Index i = nodes[row];
            const double push = step * (1.0 - share[row]) / share[row], count = static_cast<double>(counts[row]);
            const double *own_g = g.row(row), *total = totals.row(row);
            double *point = omega.row(i), *speed = momentum.row(i);
            for_lanes<double>(omega.columns, [&](auto l) {
                const auto slope = count * load<double>(own_g, l) - load<double>(total, l);
                store(point, l, load<double>(point, l) - step * slope);
                store(speed, l, load<double>(speed, l) + push * slope);
            });
        }
    };
    parallel(nodes.size, static_cast<double>(omega.columns) * 0.5, work);
}

// out[i] = r_{start + 1 + i}, the excesses of the theta sequence for m nodes, given excess = r_{start + 1}; returns r for
// the next block. See decentralized/baselines/theta.py.
double theta_excesses(double excess, Index start, Index m, Vector<double> out) {
    for (Index i = 0; i < out.size; ++i) {
        out[i] = excess;
        const double inverse = 0.5 * static_cast<double>(start + i) + static_cast<double>(m) + excess;
        excess += 0.5 / (std::sqrt(1.0 + 4.0 * inverse * inverse) + 2.0 * inverse);
    }
    return excess;
}

// out[e] = |p_i - p_j|^2 for the rows i, j of p (m, n) that edge e of `edges` (E, 2) joins.
void squared_differences(Matrix<const double> p, Matrix<const Index> edges, Vector<double> out) {
    const auto work = [&](Index begin, Index end) {
        for (Index e = begin; e < end; ++e)
            out[e] = squared_distance(p.row(edges(e, 0)), p.row(edges(e, 1)), p.columns);
    };
    parallel(edges.rows, static_cast<double>(p.columns) * 0.5, work);
}

}  // namespace barymesh::INSTRUCTION_SET
