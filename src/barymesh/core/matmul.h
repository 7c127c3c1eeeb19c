// Matrix products inside kernels.
//
// The separable oracle multiplies thousands of small matrices (28 x 28, say), one set for each node, with other work
// between them. A tile of some rows times STRIP columns stays in registers over the whole sum. A sum adds its terms in
// their order for every size of the tile: a row is the same to the last bit, whichever rows it is multiplied with.
#pragma once

#include "simd.h"

namespace barymesh::INSTRUCTION_SET {

constexpr int HALF_STRIP = STRIP / 2;
// most rows of a tile: together they fill most of the registers
constexpr int TILE_ROWS = VECTOR_BYTES == 64 ? 12 : VECTOR_BYTES == 32 ? 6 : 3;

struct Range {
    Index start, stop;
    INLINE Index size() const { return stop - start; }
};

INLINE Index padded(Index columns) { return (columns + STRIP - 1) / STRIP * STRIP; }

// c[r, 0:COLUMNS] (+)= sum_k a[r, k] b[k step : k step + COLUMNS] for ROWS rows r, over k in `inner`
template <int ROWS, int COLUMNS, bool ADD, class T>
INLINE void tile(const T* a, Index a_width, const T* b, Index step, T* c, Index c_width, Range inner) {
    constexpr int W = WIDTH<T> < COLUMNS ? WIDTH<T> : COLUMNS;
    constexpr int R = COLUMNS / W;
    Simd<T, W> total[ROWS][R] = {};
    if constexpr (ADD) {
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
            for (int q = 0; q < R; ++q) total[r][q] = load<T>(c + r * c_width, Lanes<W>{q * W});
    }
    for (Index k = inner.start; k < inner.stop; ++k) {
        Simd<T, W> values[R];
#pragma GCC unroll 4
        for (int q = 0; q < R; ++q) values[q] = load<T>(b + k * step, Lanes<W>{q * W});
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
            const auto factor = splat<T, W>(a[r * a_width + k]);
#pragma GCC unroll 4
            for (int q = 0; q < R; ++q) total[r][q] = fma(factor, values[q], total[r][q]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
        for (int q = 0; q < R; ++q) store(c + r * c_width, Lanes<W>{q * W}, total[r][q]);
}

// tiles of ROWS rows while there are as many, then smaller ones
template <int ROWS, int COLUMNS, bool ADD, class T>
INLINE void tiles(const T* a, Index a_width, const T* b, Index step, T* c, Index c_width, Index rows, Range inner) {
    Index i = 0;
    for (; rows - i >= ROWS; i += ROWS)
        tile<ROWS, COLUMNS, ADD>(a + i * a_width, a_width, b, step, c + i * c_width, c_width, inner);
    if constexpr (ROWS > 1) {
        constexpr int NEXT = ROWS == 12 ? 4 : ROWS == 6 ? 4 : ROWS == 24 ? 12 : ROWS / 2;
        tiles<NEXT, COLUMNS, ADD>(a + i * a_width, a_width, b, step, c + i * c_width, c_width, rows - i, inner);
    }
}

// c[rows, columns] = a[rows, inner] @ b[inner, columns]; b and c have a multiple of STRIP columns, and a few columns
// beside `columns` may be written too
template <class T>
INLINE void matmul(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, Range rows, Range columns, Range inner) {
    const Index wide = (columns.size() + HALF_STRIP - 1) / HALF_STRIP * HALF_STRIP;
    const T* lines = a.row(rows.start);
    T* out = c.row(rows.start);
    Index j = smaller(columns.start, b.columns - wide);
    for (; columns.stop - j > HALF_STRIP; j += STRIP)
        tiles<TILE_ROWS, STRIP, false>(lines, a.columns, b.data + j, b.columns, out + j, c.columns, rows.size(), inner);
    if (j < columns.stop)
        tiles<2 * TILE_ROWS, HALF_STRIP, false>(lines, a.columns, b.data + j, b.columns, out + j, c.columns,
                                                rows.size(), inner);
}

// c[:, j : j + STRIP] += sum_k a[:, k] b[first + k step : first + k step + STRIP] over k in `inner`: the rows of the
// right-hand matrix may be anywhere in b, and overlap, as those of a Toeplitz matrix do
template <class T>
INLINE void add_strip(Matrix<const T> a, const T* b, Matrix<T> c, Index j, Range inner, Index first, Index step) {
    tiles<TILE_ROWS, STRIP, true>(a.data, a.columns, b + first, step, c.data + j, c.columns, a.rows, inner);
}

}  // namespace barymesh::INSTRUCTION_SET
