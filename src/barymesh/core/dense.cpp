// Histograms on a common set of points: products of rows with a Gibbs kernel, and the steps around them.
// See oracle/gibbs.py and oracle/dense.py.
#include "matmul.h"
#include "threads.h"
#include "vector_math.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// terms of the sums added together, so that the parts of both factors stay in the nearest cache
constexpr Index TERMS = 512;
// strips computed together by one thread
constexpr Index STRIPS = 8;
// numbers below this stand for 0 in a logarithm
constexpr double LEAST = 1e-300;

// `times` for the first `terms` columns of a
template <class T>
void first_times(Matrix<const T> a, Index terms, Vector<const T> b, Index origin, Index between, Index step,
                 Matrix<T> c) {
    const Index strips = c.columns / STRIP;
    parallel((strips + STRIPS - 1) / STRIPS, static_cast<double>(a.rows * terms * STRIP * STRIPS) * 0.05,
             [&](Index begin, Index end) {
                 for (Index block = begin; block < end; ++block)
                     for (Index start = 0; start < terms; start += TERMS)
                         for (Index s = block * STRIPS; s < smaller(strips, (block + 1) * STRIPS); ++s)
                             add_strip<T>(a, b.data, c, s * STRIP, {start, smaller(start + TERMS, terms)},
                                          origin + s * between, step);
             });
}

}  // namespace

// strips[s, k, c] = exp(-|points[k] - table[STRIP s + c]|^2), 0 where the last strip has no point of the table.
// `points` (n, d), `table` (N, d), `strips` (N / STRIP rounded up, n, STRIP).
template <class T>
void squared_gibbs(Matrix<const double> points, Matrix<const double> table, Cube<T> strips) {
    const Index n = points.rows, d = points.columns;
    parallel(strips.depth, static_cast<double>(n * STRIP) * (1.0 + 0.3 * static_cast<double>(d)),
             [&](Index begin, Index end) {
                 // a strip of the table, axis by axis
                 const Buffer<double> memory(d * STRIP);
                 const auto axes = memory.matrix(d, STRIP);
                 for (Index s = begin; s < end; ++s) {
                     const Index count = smaller<Index>(STRIP, table.rows - s * STRIP);
                     for (Index a = 0; a < d; ++a)
                         for (Index c = 0; c < STRIP; ++c) axes(a, c) = table(s * STRIP + smaller(c, count - 1), a);
                     for (Index k = 0; k < n; ++k) {
                         T* line = strips[s].row(k);
                         for_lanes<double>(STRIP, [&](auto l) {
                             auto squares = splat<double, l.count>(0.0);
                             for (Index a = 0; a < d; ++a) {
                                 const auto apart = load<double>(axes.row(a), l) - points(k, a);
                                 squares = fma(apart, apart, squares);
                             }
                             store(line, l, exp(-squares));
                         });
                         for (Index c = count; c < STRIP; ++c) line[c] = T(0);
                     }
                 }
             });
}

// c (m, columns) += a (m, n) @ K, where row k of K has its columns STRIP s, ..., STRIP s + STRIP - 1 at
// b[origin + s between + k step:].
template <class T>
void times(Matrix<const T> a, Vector<const T> b, Index origin, Index between, Index step, Matrix<T> c) {
    first_times<T>(a, a.columns, b, origin, between, step, c);
}

// out[i] = exp(x[i] - top[i]) with top[i] = max x[i].
template <class T>
void shifted_exp(Matrix<const double> x, Vector<double> top, Matrix<T> out) {
    const Index n = x.columns;
    parallel(x.rows, static_cast<double>(n), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            const double high = top[i] = largest_of(x.row(i), n);
            T* line = out.row(i);
            for_lanes<double>(n, [&](auto l) { store(line, l, load<double>(x.row(i), l) - high); });
            for_lanes<T>(n, [&](auto l) { store(line, l, exp(load<T>(line, l))); });
        }
    });
}

// z <- masses / z where there is mass, 0 elsewhere; value = sum masses log z; ok if every such z is above tiny.
template <class T>
void divide(Matrix<const T> masses, Matrix<T> z, double tiny, Vector<double> value, Vector<double> largest,
            Vector<bool> ok) {
    const Index n = masses.columns;
    parallel(z.rows, 2.0 * static_cast<double>(n), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            const T* mass = masses.row(i);
            T* line = z.row(i);
            value[i] = sum_terms<double>(n, [&](auto total, auto l) {
                constexpr int N = l.count;
                const auto m = load<double>(mass, l);
                const auto number = select(m > 0.0, load<double>(line, l), splat<double, N>(1.0));
                return total + m * log(highest(number, splat<double, N>(LEAST)));
            });
            double lowest_sum = 1.0;
            for (Index k = 0; k < n; ++k)
                if (mass[k] > 0) lowest_sum = smaller(lowest_sum, static_cast<double>(line[k]));
            for_lanes<double>(n, [&](auto l) {
                constexpr int N = l.count;
                const auto m = load<double>(mass, l);
                const auto number = select(m > 0.0, load<double>(line, l), splat<double, N>(1.0));
                store(line, l, select(number > tiny, m / number, splat<double, N>(0.0)));
            });
            largest[i] = larger(static_cast<double>(largest_of(line, n)), 0.0);
            ok[i] = lowest_sum > tiny;
        }
    });
}

// log_p = x - top + log sums; ok becomes False where a sum may have lost terms to underflow.
template <class T>
void log_gradients(Matrix<const double> x, Vector<const double> top, Matrix<const T> sums, Vector<const double> largest,
                   double tiny, Vector<bool> ok, Matrix<double> log_p) {
    const Index n = x.columns;
    parallel(x.rows, 2.0 * static_cast<double>(n), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            const T* part = sums.row(i);
            ok[i] = ok[i] && smallest_of(part, n) > tiny * larger(largest[i], 1.0);
            for_lanes<double>(n, [&](auto l) {
                const auto sum = highest(load<double>(part, l), splat<double, l.count>(LEAST));
                store(log_p.row(i), l, load<double>(x.row(i), l) - top[i] + log(sum));
            });
        }
    });
}

// out[starts[i]:starts[i + 1]] = top[i] + log z[i] at the atoms of node i, which are in `position` from offsets[i]; ok
// if all of them are above tiny.
template <class T>
void log_sums(Matrix<const T> z, Vector<const double> top, Vector<const Index> position, Vector<const Index> offsets,
              Vector<const Index> starts, double tiny, Vector<double> out, Vector<bool> ok) {
    parallel(z.rows, 5.0 * static_cast<double>(z.columns), [&](Index begin, Index end) {
        for (Index i = begin; i < end; ++i) {
            double lowest_sum = 1.0;
            for (Index k = 0; k < starts[i + 1] - starts[i]; ++k) {
                const double number = z(i, position[offsets[i] + k]);
                lowest_sum = smaller(lowest_sum, number);
                out[starts[i] + k] = top[i] + log(larger(number, LEAST));
            }
            ok[i] = lowest_sum > tiny;
        }
    });
}

// `value` (b,) and `log_p` (b, n) for x (b, n), in units of reg and without `top`, which is to be added to the value:
// shifted_exp, the product with the kernel to the atoms, divide, the product with that to the support, log_gradients.
// A kernel is given by its numbers and its layout (origin, between, step), see `times`. `e` (b, n), `z` (b, N padded)
// and `sums` (b, n padded) hold what is computed on the way. ok (b,): which rows lost no terms.
template <class T>
void dense_nodes(Matrix<const double> x, Matrix<const T> masses, Vector<const T> to_atoms,
                 Vector<const Index> atoms_layout, Vector<const T> to_support, Vector<const Index> support_layout,
                 double tiny, Matrix<T> e, Matrix<T> z, Matrix<T> sums, Vector<double> top, Vector<double> value,
                 Matrix<double> log_p, Vector<bool> ok) {
    const Buffer<double> largest(x.rows);
    const auto clear = [](Matrix<T> a) { std::memset(a.data, 0, static_cast<std::size_t>(a.size()) * sizeof(T)); };
    shifted_exp<T>(x, top, e);
    clear(z);
    times<T>(e, to_atoms, atoms_layout[0], atoms_layout[1], atoms_layout[2], z);
    divide<T>(masses, z, tiny, value, largest, ok);
    clear(sums);
    first_times<T>(z, masses.columns, to_support, support_layout[0], support_layout[1], support_layout[2], sums);
    log_gradients<T>(x, top, sums, {largest.data, largest.size}, tiny, ok, log_p);
}

#define INSTANTIATE(T)                                                                                                 \
    template void squared_gibbs<T>(Matrix<const double>, Matrix<const double>, Cube<T>);                               \
    template void times<T>(Matrix<const T>, Vector<const T>, Index, Index, Index, Matrix<T>);                          \
    template void shifted_exp<T>(Matrix<const double>, Vector<double>, Matrix<T>);                                     \
    template void divide<T>(Matrix<const T>, Matrix<T>, double, Vector<double>, Vector<double>, Vector<bool>);         \
    template void log_gradients<T>(Matrix<const double>, Vector<const double>, Matrix<const T>, Vector<const double>, \
                                   double, Vector<bool>, Matrix<double>);                                              \
    template void dense_nodes<T>(Matrix<const double>, Matrix<const T>, Vector<const T>, Vector<const Index>,          \
                                 Vector<const T>, Vector<const Index>, double, Matrix<T>, Matrix<T>, Matrix<T>,        \
                                 Vector<double>, Vector<double>, Matrix<double>, Vector<bool>);                        \
    template void log_sums<T>(Matrix<const T>, Vector<const double>, Vector<const Index>, Vector<const Index>,         \
                              Vector<const Index>, double, Vector<double>, Vector<bool>);
INSTANTIATE(double)
INSTANTIATE(float)

}  // namespace barymesh::INSTRUCTION_SET
