// Sums of exponentials over the support, one atom after the other; see atoms.cpp.
#pragma once

#include "vector_math.h"

namespace barymesh::INSTRUCTION_SET {

// Two kinds of costs between the support and the points of a table, divided by reg. With L support points l,
// `exponents(x, k, l)` is x_l - c(z_l, y_k).

// rows (U, n) of a cost matrix
template <class T>
struct GivenCost {
    Matrix<const T> rows;
    template <class L>
    INLINE auto exponents(const T* x, Index k, L l) const {
        return load<T>(x, l) - load<T>(rows.row(k), l);
    }
};

// |z - y|^2 for the columns z of `support_t` (d, n) and the rows y of `points` (U, d)
template <class T>
struct SquaredCost {
    Matrix<const T> support_t, points;
    template <class L>
    INLINE auto exponents(const T* x, Index k, L l) const {
        const auto gap = load<T>(support_t.data, l) - points(k, 0);
        auto total = fma(-gap, gap, load<T>(x, l));
        for (Index axis = 1; axis < points.columns; ++axis) {
            const auto further = load<T>(support_t.row(axis), l) - points(k, axis);
            total = fma(-further, further, total);
        }
        return total;
    }
};

// f(the cost that is not empty)
template <class T, class F>
INLINE void with_cost(Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost, const F& f) {
    if (cost.size())
        f(GivenCost<T>{cost});
    else
        f(SquaredCost<T>{support_t, points});
}

// a larger sum shows that the shift was far too low; larger exponents are clipped
template <class T>
constexpr T HUGE_SUM = sizeof(T) == 8 ? T(1e200) : T(1e25);
template <class T>
constexpr T CEILING = sizeof(T) == 8 ? T(600) : T(80);

template <class T>
struct ExactSum {
    T total, top;
    Index top_index;
};

// terms_l = exp(x_l - c(z_l, y_k) - top), shifted by the largest exponent; returns their sum, the top, and its index
template <class T, class Cost>
INLINE ExactSum<T> exact_terms(Cost cost, Vector<const T> x, Index k, T* terms) {
    for_lanes<T>(x.size, [&](auto l) { store(terms, l, cost.exponents(x.data, k, l)); });
    const T top = largest_of(terms, x.size);
    Index top_index = 0;
    while (terms[top_index] < top) ++top_index;
    const T total = sum_terms<T>(x.size, [&](auto sum, auto l) INLINED {
        const auto term = exp(load<T>(terms, l) - top);
        store(terms, l, term);
        return sum + term;
    });
    return {total, top, top_index};
}

template <class T>
struct Atom {
    Index point;
    T weight;
};

// Adds w_k exp(x_l - c(z_l, y_k)) / Z_k to p (n,) for `count` atoms, where Z_k is the sum over l. `atom(k)` is an Atom;
// `keep(k, shift, total)` receives Z_k = total exp(shift). `terms` (n,) is scratch memory.
//
// The exponents of an atom are shifted by the one at the index where an earlier atom had its largest, which saves the
// pass for the maximum: the sum is then at least 1. Where it is huge, the shift was bad, and the maximum is computed.
template <class T, class Cost, class AtomOf, class Keep>
INLINE void add_atoms(Cost cost, Vector<const T> x, Index count, const AtomOf& atom, T* terms, T* p, const Keep& keep) {
    // the terms of an atom are added to p in the pass that computes those of the next one
    T factor = 0;
    for (Index j = 0; j < x.size; ++j) terms[j] = 0;
    const auto add_last = [&](auto l) INLINED { store(p, l, fma(factor, load<T>(terms, l), load<T>(p, l))); };
    Index top_index = 0;
    for (Index k = 0; k < count; ++k) {
        const auto [point, weight] = atom(k);
        T shift = cost.exponents(x.data, point, Lanes<1>{top_index});
        T total = sum_terms<T>(x.size, [&, point = point](auto sum, auto l) INLINED {
            add_last(l);
            const auto ceiling = splat<T, l.count>(CEILING<T>);
            const auto term = exp(lowest(cost.exponents(x.data, point, l) - shift, ceiling));
            store(terms, l, term);
            return sum + term;
        });
        if (!(total < HUGE_SUM<T>)) {
            const auto exact = exact_terms(cost, x, point, terms);
            total = exact.total, shift = exact.top, top_index = exact.top_index;
        }
        factor = weight / total;
        keep(k, shift, total);
    }
    for_lanes<T>(x.size, add_last);
}

}  // namespace barymesh::INSTRUCTION_SET
