// Counter-based random numbers: every draw is a function of its address alone.
//
// `random_stream(seed, purpose, a, b)` identifies a stream, `random_bits(stream, k)` is its k-th 64-bit number: the
// SplitMix64 generator (Steele, Lea, Flood 2014), entered at any position. So a draw depends neither on the order of
// the draws, nor on the batch, nor on the process. Different purposes have independent streams.
#pragma once

#include "vector_math.h"

namespace barymesh::INSTRUCTION_SET {

enum Purpose : std::uint64_t { CHOICES, NORMALS, DELAYS, CLOCKS, ORDERS };

constexpr std::uint64_t GOLDEN = 0x9E3779B97F4A7C15;

// SplitMix64's finaliser: a bijection of 64-bit numbers whose every output bit depends on every input bit
INLINE std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

// the stream for the pair (a, b), such as activation b of node a
INLINE std::uint64_t random_stream(std::uint64_t seed, Purpose purpose, std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = mix(seed + GOLDEN * (purpose + 1));
    x = mix(x ^ (a * GOLDEN + 1));
    return mix(x ^ (b * GOLDEN + 1));
}

INLINE std::uint64_t random_bits(std::uint64_t stream, std::uint64_t k) { return mix(stream + GOLDEN * (k + 1)); }

// a number in (0, 1) from 64 random bits
INLINE double unit(std::uint64_t bits) { return (static_cast<double>(static_cast<Index>(bits >> 11)) + 0.5) * 0x1p-53; }

struct SineCosine {
    double sine, cosine;
};

// sine and cosine of an angle in quarter turns, 0 to 4: Taylor series on plus or minus an eighth of a turn, error 1e-15
INLINE SineCosine sine_and_cosine(double quarters) {
    const Index whole = static_cast<Index>(quarters + 0.5);
    const double r = (quarters - static_cast<double>(whole)) * 1.5707963267948966, z = r * r;
    double sine = fma(z, 1.0 / 6227020800, -1.0 / 39916800);
    for (double coefficient : {1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0}) sine = fma(z, sine, coefficient);
    sine *= r;
    double cosine = fma(z, -1.0 / 87178291200, 1.0 / 479001600);
    for (double coefficient : {-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0})
        cosine = fma(z, cosine, coefficient);
    // arithmetic, not branches, which random angles would mispredict: an odd quarter swaps the two, the sign alternates
    const double odd = static_cast<double>(whole & 1), sign = 1.0 - static_cast<double>(whole & 2);
    return {sign * (sine + odd * (cosine - sine)), sign * (cosine - odd * (cosine + sine))};
}

// fills `out` with independent standard normal numbers (Box and Muller)
INLINE void normals(std::uint64_t stream, Vector<double> out) {
    for (Index k = 0; k < out.size; k += 2) {
        const double radius = __builtin_sqrt(-2.0 * log(unit(random_bits(stream, k))));
        const auto [sine, cosine] = sine_and_cosine(4.0 * unit(random_bits(stream, k + 1)));
        out[k] = radius * cosine;
        if (k + 1 < out.size) out[k + 1] = radius * sine;
    }
}

}  // namespace barymesh::INSTRUCTION_SET
