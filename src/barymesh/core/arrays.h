// Views of NumPy arrays, and scratch memory.
//
// All arrays are C-contiguous; the binding refuses others. Everything here is inlined by force: code that is compiled
// for several instruction sets must not leave functions that the linker could share between them.
#pragma once

#include <cstdint>
#include <new>

#define INLINE inline __attribute__((always_inline))
// the same for a lambda, written after its parameters
#define INLINED __attribute__((always_inline))

namespace barymesh {

using Index = std::int64_t;
// the upper half of a float: its range, and two to three decimal places (bfloat16)
using Brief = std::uint16_t;

// columns of a matrix product computed together; matrices on its right-hand side are padded to a multiple of it
constexpr int STRIP = 8;
// the most differences that an accelerated iteration remembers
constexpr int LONGEST_HISTORY = 8;

template <class T>
struct Vector {  // (size,)
    T* data;
    Index size;
    INLINE T& operator[](Index i) const { return data[i]; }
    INLINE Vector slice(Index start, Index stop) const { return {data + start, stop - start}; }
    INLINE operator Vector<const T>() const { return {data, size}; }
};

template <class T>
struct Matrix {  // (rows, columns)
    T* data;
    Index rows, columns;
    INLINE T& operator()(Index i, Index j) const { return data[i * columns + j]; }
    INLINE T* row(Index i) const { return data + i * columns; }
    INLINE Vector<T> operator[](Index i) const { return {row(i), columns}; }
    INLINE Index size() const { return rows * columns; }
    INLINE operator Matrix<const T>() const { return {data, rows, columns}; }
};

template <class T>
struct Cube {  // (depth, rows, columns)
    T* data;
    Index depth, rows, columns;
    INLINE Matrix<T> operator[](Index i) const { return {data + i * rows * columns, rows, columns}; }
    INLINE operator Cube<const T>() const { return {data, depth, rows, columns}; }
};

// a tuple of arrays: one for each axis of a grid, say
template <class A>
struct List {
    static constexpr int MOST = 64;
    A items[MOST];
    int size;
    INLINE const A& operator[](int i) const { return items[i]; }
};

// Uninitialised scratch memory, aligned to cache lines.
template <class T>
class Buffer {
public:
    INLINE explicit Buffer(Index size) : size(size) {
        data = static_cast<T*>(::operator new(static_cast<std::size_t>(size) * sizeof(T), std::align_val_t(64)));
    }
    INLINE ~Buffer() { ::operator delete(data, std::align_val_t(64)); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    INLINE T& operator[](Index i) const { return data[i]; }
    INLINE operator Vector<T>() const { return {data, size}; }
    INLINE Matrix<T> matrix(Index rows, Index columns) const { return {data, rows, columns}; }
    INLINE void fill(T value) const {
        for (Index i = 0; i < size; ++i) data[i] = value;
    }
    T* data;
    Index size;
};

template <class T>
INLINE constexpr T larger(T a, T b) {
    return a > b ? a : b;
}
template <class T>
INLINE constexpr T smaller(T a, T b) {
    return a < b ? a : b;
}

}  // namespace barymesh
