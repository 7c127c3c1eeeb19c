// Exponential and logarithm of vectors: range reduction and a polynomial, without branches.
#pragma once

#include "simd.h"

namespace barymesh::INSTRUCTION_SET {

constexpr double LOG2_E = 1.4426950408889634;
// ln 2 in two parts, the first short enough for an exact product with a small integer
constexpr double LN2_HIGH = 0.6931471803691238, LN2_LOW = 1.9082149292705877e-10;
constexpr float LN2_HIGH_32 = 0.693115234375f, LN2_LOW_32 = 3.1946184945309415e-05f;
// adding BIG rounds to an integer and leaves that integer in the low bits of the sum
constexpr double BIG = 6755399441055744.0;
constexpr float BIG_32 = 12582912.0f;

// 2^k for a whole number k stored as k + BIG, with -1023 < k <= 1023; 0 for k = -1023
template <class V>
INLINE V two_to(V shifted) {
    using B = Bits<V>;
    constexpr int bias = sizeof(Element<V>) == 8 ? 1023 : 127, fraction = sizeof(Element<V>) == 8 ? 52 : 23;
    return __builtin_bit_cast(V, (__builtin_bit_cast(B, shifted) + bias) << fraction);
}

// exp(x) for x <= 709 within 1 ulp or so; exactly 0 below -708 (float: 88 and -87)
template <class V>
    requires(sizeof(Element<V>) == 8)
INLINE V exp(V x) {
    // Chebyshev fit of exp on [-ln2/2, ln2/2], degree 11, error 3e-18
    const V shifted = fma(x, splat<double, COUNT<V>>(LOG2_E), splat<double, COUNT<V>>(BIG));
    const V whole = shifted - BIG;
    const V r = fma(-whole, splat<double, COUNT<V>>(LN2_LOW), fma(-whole, splat<double, COUNT<V>>(LN2_HIGH), x));
    // Estrin's scheme, not Horner's: latency, not throughput, limits the loop
    const auto line = [&](double slope, double start) {
        return fma(r, splat<double, COUNT<V>>(slope), splat<double, COUNT<V>>(start));
    };
    const V r2 = r * r, r4 = r2 * r2;
    const V low = fma(r2, line(0.1666666666666668, 0.5000000000000019), 1.0 + r);
    const V middle = fma(r2, line(0.00019841269890047113, 0.0013888888952314775),
                         line(0.008333333333319601, 0.0416666666664881));
    const V high = fma(r2, line(2.5110037605963777e-08, 2.763263963904103e-07),
                       line(2.755724091857897e-06, 2.4801485482328494e-05));
    const V p = fma(r4, fma(r4, high, middle), low);
    return select(x >= -708.0, p * two_to(shifted), V{});
}

template <class V>
    requires(sizeof(Element<V>) == 4)
INLINE V exp(V x) {
    // Chebyshev fit of degree 6, error 2e-9
    const auto all = [](float value) { return splat<float, COUNT<V>>(value); };
    const V shifted = fma(x, all(float(LOG2_E)), all(BIG_32));
    const V whole = shifted - BIG_32;
    const V r = fma(-whole, all(LN2_LOW_32), fma(-whole, all(LN2_HIGH_32), x));
    V p = all(0.0013941108433972674f);
    p = fma(p, r, all(0.008375126398153335f));
    p = fma(p, r, all(0.04166635289677516f));
    p = fma(p, r, all(0.16666415514653277f));
    p = fma(p, r, all(0.5000000047117757f));
    p = fma(p, r, all(1.000000037716214f));
    p = fma(p, r, all(1.0f));
    return select(x >= -87.0f, p * two_to(shifted), V{});
}

// log(x) for positive normal numbers (above 2.3e-308), within 1 ulp or so
template <class V>
    requires(sizeof(Element<V>) == 8)
INLINE V log(V x) {
    // x = 2^k f with f in [sqrt(1/2), sqrt(2)); log f = 2 atanh(s), s = (f - 1)/(f + 1)
    using U = Simd<std::uint64_t, COUNT<V>>;
    constexpr std::uint64_t sqrt_half = 0x3FE6A09E667F3BCD, mantissa = 0x000FFFFFFFFFFFFF, two_52 = 0x4330000000000000;
    // the bias keeps the number positive: there may be no arithmetic shift of 64-bit integers
    const U offset = __builtin_bit_cast(U, x) + ((std::uint64_t(1024) << 52) - sqrt_half);
    const V exponent = __builtin_bit_cast(V, (offset >> 52) | two_52) - (4503599627370496.0 + 1024.0);
    const V f = __builtin_bit_cast(V, (offset & mantissa) + sqrt_half);
    const V s = (f - 1.0) / (f + 1.0), z = s * s, z2 = z * z;
    const auto line = [&](double slope, double start) {
        return fma(z, splat<double, COUNT<V>>(slope), splat<double, COUNT<V>>(start));
    };
    const V low = fma(z2, line(0.11111111195856962, 0.14285714285401807), line(0.2000000000000044, 0.3333333333333333));
    const V high = fma(z2, line(0.06543313076280502, 0.0663438656906799), line(0.07693119851418824, 0.09090897820066195));
    const V p = fma(z2 * z2, high, low);
    const V tail = fma(exponent, splat<double, COUNT<V>>(LN2_LOW), 2.0 * s * z * p);
    return fma(exponent, splat<double, COUNT<V>>(LN2_HIGH), 2.0 * s + tail);
}

}  // namespace barymesh::INSTRUCTION_SET
