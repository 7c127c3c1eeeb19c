// Passes over the history of an Anderson-accelerated iteration, one row of (m, n) at a time. See exact/anderson.py. The
// history holds numbers of type H, which only shape directions: float, or Brief to save memory.
#include <cmath>

#include "simd.h"
#include "threads.h"
#include "vector_math.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

constexpr Index BLOCK = 64;

// One row of `gram`, for COUNT differences or fewer. Every sum has four running sums, which are added in pairs: all of
// them together fit into the registers, or nearly so.
template <int COUNT, class H>
void products(Index count, Cube<const H> changes, Index i, Matrix<const double> r, double weight,
              Vector<const double> p, Matrix<double> out) {
    if constexpr (COUNT > 1)
        if (count < COUNT) return products<COUNT - 1, H>(count, changes, i, r, weight, p, out);
    constexpr int RUNNING = 4, W = WIDTH<double> < RUNNING ? WIDTH<double> : RUNNING, R = RUNNING / W;
    const H* d[COUNT];
    for (int q = 0; q < COUNT; ++q) d[q] = changes[q].row(i);
    // adds the terms l to the sums
    const auto add = [&](auto l, auto& sums) __attribute__((always_inline)) {
        const auto scale = weight * load<double>(p.data, l), rest = load<double>(r.row(i), l);
        Simd<double, l.count> right[COUNT];
#pragma GCC unroll 8
        for (int q = 0; q < COUNT; ++q) right[q] = load<double>(d[q], l);
#pragma GCC unroll 8
        for (int q = 0; q < COUNT; ++q) {
            const auto left = scale * right[q];
#pragma GCC unroll 8
            for (int s = q; s < COUNT; ++s) sums[q][s] = fma(left, right[s], sums[q][s]);
            sums[q][COUNT] = fma(left, rest, sums[q][COUNT]);
        }
    };
    Simd<double, W> sums[R][COUNT][COUNT + 1] = {};
    Index k = 0;
    for (; k + RUNNING <= p.size; k += RUNNING) {
#pragma GCC unroll 2
        for (int part = 0; part < R; ++part) add(Lanes<W>{k + part * W}, sums[part]);
    }
    double rest[RUNNING][COUNT][COUNT + 1];
    for (int lane = 0; lane < RUNNING; ++lane)
        for (int q = 0; q < COUNT; ++q)
            for (int s = 0; s <= COUNT; ++s) rest[lane][q][s] = sums[lane / W][q][s][lane % W];
    for (int lane = 0; k < p.size; ++k, ++lane) add(Lanes<1>{k}, rest[lane]);
    for (int q = 0; q < COUNT; ++q)
        for (int s = 0; s <= COUNT; ++s)
            out(q, s) = (rest[0][q][s] + rest[1][q][s]) + (rest[2][q][s] + rest[3][q][s]);
}

}  // namespace

// out = weights @ rows, each term in the order of the rows.
void weighted_mean(Matrix<const double> rows, Vector<const double> weights, Vector<double> out) {
    const Index n = out.size;
    parallel((n + BLOCK - 1) / BLOCK, static_cast<double>(rows.rows * BLOCK) * 0.3, [&](Index begin, Index end) {
        for (Index start = begin * BLOCK; start < smaller(n, end * BLOCK); start += BLOCK) {
            const Index size = smaller(BLOCK, n - start);
            double total[BLOCK] = {};
            for (Index i = 0; i < rows.rows; ++i)
                for_lanes<double>(size, [&](auto l) {
                    const auto row = load<double>(rows.row(i) + start, l);
                    store(total, l, fma(row, splat<double, l.count>(weights[i]), load<double>(total, l)));
                });
            std::memcpy(out.data + start, total, size * sizeof(double));
        }
    });
}

// log_p <- mean - log_p row by row; error[i] = sum_l |p_i(l) - p(l)|.
void residual(Matrix<double> log_p, Vector<const double> mean, Vector<const double> p, Vector<double> error) {
    const Index n = p.size;
    parallel(log_p.rows, 1.5 * static_cast<double>(n), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            double* line = log_p.row(i);
            error[i] = sum_terms<double>(n, [&](auto total, auto l) {
                const auto own = load<double>(line, l);
                store(line, l, load<double>(mean.data, l) - own);
                return total + absolute(exp(own) - load<double>(p.data, l));
            });
        }
    });
}

// Turn the previous residual and step in a slot of the history into differences: change = dr and
// move = dx + relaxation dr.
template <class H>
void close_slot(Matrix<const double> r, double relaxation, Matrix<H> change, Matrix<H> move) {
    parallel(r.rows, 0.7 * static_cast<double>(r.columns), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i)
            for_lanes<double>(r.columns, [&](auto l) {
                const auto difference = load<double>(r.row(i), l) - load<double>(change.row(i), l);
                store(change.row(i), l, difference);
                store(move.row(i), l, load<double>(move.row(i), l) + relaxation * difference);
            });
    });
}

// out[i, q, s] = w_i sum_l p_l d_q d_s for residual differences d and s >= q, and out[i, q, count] = w_i sum_l p_l d_q r;
// the lower triangle is 0. At most LONGEST_HISTORY differences.
template <class H>
void gram(Cube<const H> changes, Index count, Matrix<const double> r, Vector<const double> weights,
          Vector<const double> p, Cube<double> out) {
    parallel(r.rows, 0.2 * static_cast<double>(p.size * count), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) products<LONGEST_HISTORY, H>(count, changes, i, r, weights[i], p, out[i]);
    });
}

// The c that minimises |r - sum_q c_q d_q|^2, from the table (count, count + 1) that `gram` makes, summed over the nodes;
// every d_q counts as if its square were 1, and `ridge` is added to it. By Cholesky's factors. False if there are none,
// or if the result is not finite.
bool least_squares(Matrix<const double> table, double ridge, Vector<double> out) {
    const Index count = table.rows;
    double lower[LONGEST_HISTORY][LONGEST_HISTORY], scale[LONGEST_HISTORY], found[LONGEST_HISTORY];
    for (Index i = 0; i < count; ++i) scale[i] = std::sqrt(larger(table(i, i), 2.2250738585072014e-308));
    for (Index i = 0; i < count; ++i) {
        for (Index j = 0; j <= i; ++j) {
            double sum = table(j, i) / (scale[i] * scale[j]) + (i == j ? ridge : 0.0);
            for (Index k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
            if (i > j) {
                lower[i][j] = sum / lower[j][j];
            } else {
                if (!(sum > 0.0)) return false;
                lower[i][i] = std::sqrt(sum);
            }
        }
        double right = table(i, count) / scale[i];
        for (Index k = 0; k < i; ++k) right -= lower[i][k] * found[k];
        found[i] = right / lower[i][i];
    }
    for (Index i = count - 1; i >= 0; --i) {
        for (Index k = i + 1; k < count; ++k) found[i] -= lower[k][i] * found[k];
        found[i] /= lower[i][i];
    }
    bool finite = true;
    for (Index i = 0; i < count; ++i) {
        out[i] = found[i] / scale[i];
        finite = finite && out[i] - out[i] == 0.0;
    }
    return finite;
}

// Take the accelerated step and fill the next slot of the history.
//
// x <- x - drift + w r - sum_q c_q (dx_q + w dr_q), w the relaxation; `fallback` gets the plain step x - drift + r; the
// slot gets the step and the residual, from which `close_slot` computes the next differences.
template <class H>
void accelerate(Matrix<double> x, Matrix<const double> r, Vector<const double> drift, Matrix<double> fallback,
                Cube<H> moves, Cube<H> changes, Index count, Vector<const double> coefficients,
                double relaxation, Index slot) {
    parallel(x.rows, static_cast<double>(x.columns * (3 + count)) * 0.4, [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i)
            for_lanes<double>(x.columns, [&](auto l) {
                const auto line = load<double>(x.row(i), l) - load<double>(drift.data, l);
                const auto step = load<double>(r.row(i), l);
                store(fallback.row(i), l, line + step);
                auto taken = relaxation * step;
                for (Index q = 0; q < count; ++q) taken -= coefficients[q] * load<double>(moves[q].row(i), l);
                store(x.row(i), l, line + taken);
                store(moves[slot].row(i), l, taken);
                store(changes[slot].row(i), l, step);
            });
    });
}

#define INSTANTIATE(H)                                                                                                 \
    template void close_slot<H>(Matrix<const double>, double, Matrix<H>, Matrix<H>);                                   \
    template void gram<H>(Cube<const H>, Index, Matrix<const double>, Vector<const double>, Vector<const double>,      \
                          Cube<double>);                                                                               \
    template void accelerate<H>(Matrix<double>, Matrix<const double>, Vector<const double>, Matrix<double>, Cube<H>,   \
                                Cube<H>, Index, Vector<const double>, double, Index);
INSTANTIATE(float)
INSTANTIATE(Brief)

}  // namespace barymesh::INSTRUCTION_SET
