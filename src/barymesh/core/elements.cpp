// The building blocks of the other kernels, one call each, for their tests.
#include "matmul.h"
#include "random.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {

// out = exp(x).
template <class T>
void vector_exp(Vector<const T> x, Vector<T> out) {
    for_lanes<T>(x.size, [&](auto l) { store(out.data, l, exp(load<T>(x.data, l))); });
}

// out = log(x).
void vector_log(Vector<const double> x, Vector<double> out) {
    for_lanes<double>(x.size, [&](auto l) { store(out.data, l, log(load<double>(x.data, l))); });
}

template <class T>
double vector_sum(Vector<const T> a) {
    return sum_of(a.data, a.size);
}

// The sum of products, in the type of a.
template <class T, class S>
double vector_dot(Vector<const T> a, Vector<const S> b) {
    return dot(a.data, b.data, a.size);
}

// c[rows, columns] = a[rows, inner] @ b[inner, columns], for ranges (start, stop).
template <class T>
void part_of_product(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, Vector<const Index> rows,
                     Vector<const Index> columns, Vector<const Index> inner) {
    matmul<T>(a, b, c, {rows[0], rows[1]}, {columns[0], columns[1]}, {inner[0], inner[1]});
}

// The first numbers of a stream of random.h.
void random_words(std::uint64_t stream, Vector<std::uint64_t> out) {
    for (Index k = 0; k < out.size; ++k) out[k] = random_bits(stream, k);
}

void random_normals(std::uint64_t stream, Vector<double> out) { normals(stream, out); }

#define INSTANTIATE(T)                                                                                                 \
    template void vector_exp<T>(Vector<const T>, Vector<T>);                                                           \
    template double vector_sum<T>(Vector<const T>);                                                                    \
    template void part_of_product<T>(Matrix<const T>, Matrix<const T>, Matrix<T>, Vector<const Index>,                 \
                                     Vector<const Index>, Vector<const Index>);
INSTANTIATE(double)
INSTANTIATE(float)
template double vector_dot<double, double>(Vector<const double>, Vector<const double>);
template double vector_dot<double, float>(Vector<const double>, Vector<const float>);

}  // namespace barymesh::INSTRUCTION_SET
