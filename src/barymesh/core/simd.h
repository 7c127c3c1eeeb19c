// SIMD through the compilers' vector types.
//
// A source file that includes this is compiled once for each instruction set, in the namespace INSTRUCTION_SET.
//
// A loop over numbers is written once, as a function of `Lanes<N>`, which stands for N neighbouring numbers from `at`
// on. `for_lanes` calls it for vectors of the native width, and for shorter ones at the end:
//
//     for_lanes<double>(n, [&](auto l) { store(out, l, exp(load<double>(x, l) - shift)); });
//
// Nothing depends on the width: products are fused where the code says `fma`, and sums have a fixed order. So all
// instruction sets with a fused multiply-add give the same bits. The baseline of x86-64 has none, and rounds twice.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "arrays.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__)
#define FUSED 1
#else
#define FUSED 0
#endif

namespace barymesh::INSTRUCTION_SET {

// N numbers of type T: a vector, or for N = 1 the number itself
template <class T, int N>
struct SimdType {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <class T>
struct SimdType<T, 1> {
    using type = T;
};
template <class T, int N>
using Simd = typename SimdType<T, N>::type;

// numbers of type T in a native vector
template <class T>
constexpr int WIDTH = VECTOR_BYTES / sizeof(T);

template <class V>
struct Shape {  // of a vector type
    using Element = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
    static constexpr int count = sizeof(V) / sizeof(Element);
};
template <class V>
    requires std::is_arithmetic_v<V>
struct Shape<V> {
    using Element = V;
    static constexpr int count = 1;
};
template <class V>
using Element = typename Shape<V>::Element;
template <class V>
constexpr int COUNT = Shape<V>::count;
// the vector of integers as wide as the numbers of V
template <class V>
using Bits = Simd<std::conditional_t<sizeof(Element<V>) == 8, std::int64_t, std::int32_t>, COUNT<V>>;

template <int N>
struct Lanes {
    static constexpr int count = N;
    Index at;
};

template <class T, class V>
INLINE auto convert(V v) {
    if constexpr (std::is_same_v<T, Element<V>>)
        return v;
    else if constexpr (COUNT<V> == 1)
        return static_cast<T>(v);
    else
        return __builtin_convertvector(v, Simd<T, COUNT<V>>);
}

// N numbers of an array of S, as numbers of type T
template <class T, class S, int N>
INLINE Simd<T, N> load(const S* data, Lanes<N> l) {
    Simd<S, N> v;
    std::memcpy(&v, data + l.at, sizeof v);
    if constexpr (std::is_same_v<S, Brief>) {
        const auto bits = convert<std::uint32_t>(v) << 16;
        Simd<float, N> wide;
        std::memcpy(&wide, &bits, sizeof wide);
        return convert<T>(wide);
    } else
        return convert<T>(v);
}
template <class S, class V, int N>
INLINE void store(S* data, Lanes<N> l, V v) {
    static_assert(COUNT<V> == N);
    if constexpr (std::is_same_v<S, Brief>) {
        const auto single = convert<float>(v);
        Simd<std::uint32_t, N> bits;
        std::memcpy(&bits, &single, sizeof bits);
        // rounded to nearest, halves to even
        const auto upper = convert<Brief>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
        std::memcpy(data + l.at, &upper, sizeof upper);
    } else {
        const auto converted = convert<S>(v);
        std::memcpy(data + l.at, &converted, sizeof converted);
    }
}
template <class T, int N>
INLINE Simd<T, N> splat(T value) {
    if constexpr (N == 1)
        return value;
    else
        return value - Simd<T, N>{};  // minus 0: keeps the sign of zero
}

// v, or the nearest of -most and most
template <class V>
INLINE V clipped(V v, Element<V> most) {
    const V top = splat<Element<V>, COUNT<V>>(most), bottom = splat<Element<V>, COUNT<V>>(-most);
    v = v > top ? top : v;
    return v < bottom ? bottom : v;
}

// a * b + c, rounded once where the instruction set can
template <class V>
INLINE V fma(V a, V b, V c) {
    if constexpr (!FUSED)
        return a * b + c;
    else if constexpr (COUNT<V> == 1)
        return sizeof(V) == 8 ? __builtin_fma(a, b, c) : __builtin_fmaf(a, b, c);
    else {
        V r;
        for (int k = 0; k < COUNT<V>; ++k) r[k] = fma(Element<V>(a[k]), Element<V>(b[k]), Element<V>(c[k]));
        return r;
    }
}
template <class V>
    requires(COUNT<V> > 1)
INLINE V fma(Element<V> a, V b, V c) {
    return fma(splat<Element<V>, COUNT<V>>(a), b, c);
}
template <class V>
    requires(COUNT<V> > 1)
INLINE V fma(V a, V b, Element<V> c) {
    return fma(a, b, splat<Element<V>, COUNT<V>>(c));
}
template <class V>
    requires(COUNT<V> > 1)
INLINE V fma(V a, Element<V> b, V c) {
    return fma(a, splat<Element<V>, COUNT<V>>(b), c);
}
template <class V>
    requires(COUNT<V> > 1)
INLINE V fma(V a, Element<V> b, Element<V> c) {
    return fma(a, splat<Element<V>, COUNT<V>>(b), splat<Element<V>, COUNT<V>>(c));
}

template <class M, class V>
INLINE V select(M mask, V yes, V no) {
    return mask ? yes : no;
}
template <class V>
INLINE V highest(V a, V b) {
    return select(a > b, a, b);
}
template <class V>
INLINE V lowest(V a, V b) {
    return select(a < b, a, b);
}
template <class V>
INLINE V absolute(V a) {
    return highest(a, -a);
}

template <int N, class F>
INLINE void rest_of_lanes(Index k, Index n, F& f) {
    if constexpr (N > 0) {
        if (n - k >= N) {
            f(Lanes<N>{k});
            k += N;
        }
        rest_of_lanes<N / 2>(k, n, f);
    }
}

// f(l) for all numbers 0 to n - 1, in vectors of numbers of type T
template <class T, class F>
INLINE void for_lanes(Index n, F f) {
    constexpr int W = WIDTH<T>;
    Index k = 0;
    for (; k + W <= n; k += W) f(Lanes<W>{k});
    rest_of_lanes<W / 2>(k, n, f);
}

// running sums: term k goes to number k mod LANES, and neighbouring ones are added in pairs at the end
constexpr int LANES = 16;

template <int N, class T, class F>
INLINE void rest_of_terms(Index k, Index first, Index n, T* totals, F& term) {
    if constexpr (N > 0) {
        while (n - k >= N) {
            const Lanes<N> own{k - first};
            store(totals, own, term(load<T>(totals, own), Lanes<N>{k}));
            k += N;
        }
        rest_of_terms<N / 2>(k, first, n, totals, term);
    }
}

// The sum of n terms: `term(total, l)` returns the running sums with the terms l added. In a fixed order, see LANES.
template <class T, class F>
INLINE T sum_terms(Index n, F term) {
    constexpr int W = WIDTH<T> < LANES ? WIDTH<T> : LANES;
    constexpr int R = LANES / W;
    Simd<T, W> running[R] = {};
    Index k = 0;
    for (; k + LANES <= n; k += LANES) {
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) running[r] = term(running[r], Lanes<W>{k + r * W});
    }
    T totals[LANES];
    for (int r = 0; r < R; ++r) store(totals, Lanes<W>{r * W}, running[r]);
    rest_of_terms<W>(k, k, n, totals, term);
    for (int left = LANES / 2; left > 0; left /= 2)
        for (int q = 0; q < left; ++q) totals[q] = totals[2 * q] + totals[2 * q + 1];
    return totals[0];
}

template <class T>
INLINE T sum_of(const T* a, Index n) {
    return sum_terms<T>(n, [&](auto total, auto l) { return total + load<T>(a, l); });
}
// sum_k a_k b_k, in the type of a
template <class T, class S>
INLINE T dot(const T* a, const S* b, Index n) {
    return sum_terms<T>(n, [&](auto total, auto l) { return fma(load<T>(a, l), load<T>(b, l), total); });
}
template <class T>
INLINE T squared_distance(const T* a, const T* b, Index n) {
    return sum_terms<T>(n, [&](auto total, auto l) {
        const auto gap = load<T>(a, l) - load<T>(b, l);
        return fma(gap, gap, total);
    });
}

// `best` of n numbers, n > 0, where best(a, b) is the better of two vectors or numbers
template <class T, class F>
INLINE T best_of(const T* a, Index n, F best) {
    constexpr int W = WIDTH<T>;
    T found = a[0];
    Index k = 0;
    if (n >= W) {
        auto lanes = load<T>(a, Lanes<W>{0});
        for (k = W; k + W <= n; k += W) lanes = best(lanes, load<T>(a, Lanes<W>{k}));
        for (int q = 0; q < W; ++q) found = best(found, T(lanes[q]));
    }
    for (; k < n; ++k) found = best(found, a[k]);
    return found;
}
template <class T>
INLINE T largest_of(const T* a, Index n) {
    return best_of(a, n, [](auto x, auto y) INLINED { return highest(x, y); });
}
template <class T>
INLINE T smallest_of(const T* a, Index n) {
    return best_of(a, n, [](auto x, auto y) INLINED { return lowest(x, y); });
}

}  // namespace barymesh::INSTRUCTION_SET
