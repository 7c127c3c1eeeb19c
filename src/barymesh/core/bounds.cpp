// What a certificate needs to know of a plan's sums over rows. See oracle/bounds.py.
#include "threads.h"
#include "vector_math.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// below this a number stands for 0 in a logarithm
constexpr double LEAST = 2.2250738585072014e-308;

}  // namespace

// For every row i of a plan, with sums e = exp(log_rows[i]) and missing mass r = max(p - e, 0), in the columns of sums
// (b, 3 + k):
//
//     sum x[i] e,   sum r,   sum r log r,   sum r features[0],   ...,   sum r features[k - 1]
//
// `x`, `log_rows` (b, n), `p` (n,), `features` (k, n). The missing mass replaces log_rows.
void missing_rows(Matrix<const double> x, Matrix<double> log_rows, Vector<const double> p, Matrix<const double> features,
                  Matrix<double> sums) {
    const Index n = p.size;
    parallel(x.rows, static_cast<double>(n) * (3.0 + 0.2 * static_cast<double>(features.rows)),
             [&](Index begin, Index end) {
                 for (Index i = begin; i < end; ++i) {
                     double *line = log_rows.row(i), *found = sums.row(i);
                     found[0] = sum_terms<double>(n, [&](auto total, auto l) {
                         const auto e = exp(load<double>(line, l));
                         const auto nothing = splat<double, l.count>(0.0);
                         store(line, l, highest(load<double>(p.data, l) - e, nothing));
                         return fma(load<double>(x.row(i), l), e, total);
                     });
                     found[1] = sum_of(line, n);
                     found[2] = sum_terms<double>(n, [&](auto total, auto l) {
                         const auto r = load<double>(line, l);
                         return fma(r, log(highest(r, splat<double, l.count>(LEAST))), total);
                     });
                     for (Index k = 0; k < features.rows; ++k) found[3 + k] = dot(line, features.row(k), n);
                 }
             });
}

}  // namespace barymesh::INSTRUCTION_SET
