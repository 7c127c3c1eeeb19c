"""The kernels for support points that move equal their formulas, also where they leave out far points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from barymesh.core import kernels

CASES = given(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(1, 4), st.integers(1, 150)),
    st.booleans(),
    st.sampled_from([0.3, 3.0, 30.0]),
    st.sampled_from([np.float64, np.float32]),
    st.integers(0, 2**32),
)


def example(shape, squared, scale, dtype, seed):
    """The arguments of the kernels for random nodes whose atoms are sorted along the first axis, and of every node the
    exponents ``(N, n)`` and weights ``(N,)``."""
    rows, n, d, most = shape
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, most + 1, rows)
    stop = np.cumsum(counts, dtype=np.intp)
    total = int(counts.sum())
    points = (scale * rng.normal(size=(total + 1, d))).astype(dtype)
    index = np.concatenate([[], *(s - c + np.argsort(points[s - c : s, 0]) for s, c in zip(stop, counts, strict=True))])
    index = index.astype(np.intp)
    z, x = (scale * rng.normal(size=(d, n))).astype(dtype), rng.normal(size=(rows, n)).astype(dtype)
    costs = ((points[:, None].astype(float) - z.T.astype(float)) ** 2).sum(axis=2)
    cost = np.empty((0, n), dtype) if squared else costs.astype(dtype)
    weights = rng.uniform(0.01, 1, total).astype(dtype)
    arguments = x, z, points, cost, index, weights, stop - counts, stop
    parts = [slice(s - c, s) for s, c in zip(stop, counts, strict=True)]
    known = cost.astype(float) if not squared else costs
    nodes = [(x[i].astype(float) - known[index[part]], weights[part].astype(float)) for i, part in enumerate(parts)]
    # a rounding error of an exponent is a relative one of the term
    tolerance = 20 * float(np.finfo(dtype).eps) * (1.0 + known.max(initial=0.0) + most + n)
    return arguments, nodes, [points[index[part]].astype(float) for part in parts], tolerance


@CASES
def test_values_and_logarithms(shape, squared, scale, dtype, seed):
    arguments, nodes, _, tolerance = example(shape, squared, scale, dtype, seed)
    value, log_p = np.empty(len(nodes)), np.empty((len(nodes), shape[1]))
    kernels.evaluate_moving(*arguments, value, log_p)
    for i, (exponents, weights) in enumerate(nodes):
        log_z = logsumexp(exponents, axis=1)
        assert value[i] == pytest.approx(weights @ log_z, rel=tolerance, abs=tolerance * weights.sum())
        expected = logsumexp(exponents + (np.log(weights) - log_z)[:, None], axis=0)
        np.testing.assert_allclose(log_p[i], expected, rtol=1e-12, atol=max(tolerance, 1e-11))


@settings(max_examples=50)
@CASES
def test_projections_and_products(shape, squared, scale, dtype, seed):
    arguments, nodes, places, tolerance = example(shape, squared, scale, dtype, seed)
    x, z, points, cost, *rest = arguments
    n, d = shape[1], shape[2]
    sums, products = np.empty((len(nodes), 1 + d, n), dtype), np.empty((len(nodes), n, n))
    kernels.project_atoms(x, z, points, cost, points, *rest, sums)
    kernels.share_products(*arguments, products)
    for i, (exponents, weights) in enumerate(nodes):
        shares = softmax(exponents, axis=1)
        size = weights.sum()
        np.testing.assert_allclose(sums[i, 0], weights @ shares, atol=tolerance * size)
        moments = (shares * weights[:, None]).T @ places[i]
        np.testing.assert_allclose(sums[i, 1:].T, moments, atol=tolerance * size * (1 + np.abs(points).max()))
        expected = np.triu((shares * weights[:, None]).T @ shares)
        np.testing.assert_allclose(products[i], expected, atol=tolerance * size)
