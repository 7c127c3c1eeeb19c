// Linear systems with symmetric positive definite matrices, one for each node.
//
// The rows of a matrix A (n, at least n) hold its upper triangle; what is below the diagonal is not looked at.
#include "simd.h"
#include "threads.h"

#include "kernels.h"

#include <cmath>

namespace barymesh::INSTRUCTION_SET {

// Replaces every upper triangle A = U'U of `a` (b, n, at least n) by U. A pivot that is not positive, which rounding can
// make of one that is nearly zero, counts as infinite: that unknown is 0.
void factor_systems(Cube<double> a) {
    const Index n = a.rows;
    const double time = 0.1 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    parallel(a.depth, time, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            const Matrix<double> u = a[i];
            for (Index k = 0; k < n; ++k) {
                double* pivots = u.row(k);
                const double scale = pivots[k] > 0.0 ? 1.0 / std::sqrt(pivots[k]) : 0.0;
                for_lanes<double>(n - k, [&](auto l) { store(pivots + k, l, scale * load<double>(pivots + k, l)); });
                // two rows at a time: a pivot row is loaded half as often
                Index r = k + 1;
                for (; r + 1 < n; r += 2) {
                    double *first = u.row(r), *second = u.row(r + 1);
                    const double one = pivots[r], two = pivots[r + 1];
                    first[r] -= one * one;
                    for_lanes<double>(n - r - 1, [&](auto l) {
                        const auto values = load<double>(pivots + r + 1, l);
                        store(first + r + 1, l, load<double>(first + r + 1, l) - one * values);
                        store(second + r + 1, l, load<double>(second + r + 1, l) - two * values);
                    });
                }
                if (r < n) u.row(r)[r] -= pivots[r] * pivots[r];
            }
        }
    });
}

// Replaces the rows of `b` (b, n) by the solutions of U'U x = b, for the factors `u` (b, n, at least n).
void solve_systems(Cube<const double> u, Matrix<double> b) {
    const Index n = b.columns;
    parallel(b.rows, static_cast<double>(n) * static_cast<double>(n), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            double* x = b.row(i);
            const Matrix<const double> factor = u[i];
            for (Index k = 0; k < n; ++k) {
                const double pivot = factor(k, k);
                x[k] = pivot > 0.0 ? x[k] / pivot : 0.0;
                const double value = x[k];
                for_lanes<double>(n - k - 1, [&](auto l) {
                    store(x + k + 1, l, load<double>(x + k + 1, l) - value * load<double>(factor.row(k) + k + 1, l));
                });
            }
            for (Index k = n - 1; k >= 0; --k) {
                const double pivot = factor(k, k), rest = dot<double>(x + k + 1, factor.row(k) + k + 1, n - k - 1);
                x[k] = pivot > 0.0 ? (x[k] - rest) / pivot : 0.0;
            }
        }
    });
}

}  // namespace barymesh::INSTRUCTION_SET
