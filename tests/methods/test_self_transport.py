"""The response of the barycenter's own transport: a high-pass filter with the known properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import barymesh as bm
from barymesh.methods.self_transport import SelfTransport
from barymesh.oracle import build_oracle
from barymesh.problem import Problem


def line(reg, n=40):
    return SelfTransport(Problem.create([bm.Empirical([[0.0]])], np.linspace(-2, 2, n), reg=reg))


@given(seed=st.integers(0, 2**20), log_reg=st.floats(-3, 1))
def test_it_is_linear_kills_constants_and_has_mean_zero(seed, log_reg):
    rng = np.random.default_rng(seed)
    transport = line(10**log_reg)
    log_q = rng.normal(size=40) * 3
    u, v = rng.normal(size=(2, 40))
    q = np.exp(log_q) / np.exp(log_q).sum()
    both = transport.response(log_q, 2 * u - 3 * v)
    np.testing.assert_allclose(both, 2 * transport.response(log_q, u) - 3 * transport.response(log_q, v), atol=1e-10)
    np.testing.assert_allclose(transport.response(log_q, np.full(40, 7.0)), 0, atol=1e-12)
    assert abs(q @ both) < 1e-12
    assert np.isfinite(both).all()


@given(seed=st.integers(0, 2**20), log_reg=st.floats(-2, 1))
def test_its_spectrum_is_between_0_and_1(seed, log_reg):
    rng = np.random.default_rng(seed)
    transport = line(10**log_reg)
    x = np.linspace(-2, 2, 40)
    log_q = -((x - rng.uniform(-1, 1)) ** 2) / rng.uniform(0.2, 2)
    matrix = np.array([transport.response(log_q, v) for v in np.eye(40)]).T
    eigenvalues = np.linalg.eigvals(matrix)
    assert np.abs(eigenvalues.imag).max() < 1e-6
    assert eigenvalues.real.min() > -1e-6
    assert eigenvalues.real.max() < 1 + 1e-6


def test_it_is_the_derivative_of_the_log_gradient_where_the_measure_is_the_barycenter():
    """For a node whose measure is q itself, with the dual that carries q to q."""
    x = np.linspace(-2, 2, 40)
    q = np.exp(-(x**2) / 0.5)
    q /= q.sum()
    problem = Problem.create(q[None], x, reg=0.3)
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    dual = np.zeros((1, 40))
    for _ in range(3000):
        dual += np.log(q) - oracle.evaluate(dual)[1]
    v = np.sin(3 * x) + 0.3 * x
    step = 1e-5
    slope = (oracle.evaluate(dual + step * v)[1] - oracle.evaluate(dual - step * v)[1])[0] / (2 * step)
    found = SelfTransport(problem).response(np.log(q), v)
    np.testing.assert_allclose(slope - q @ slope, found, atol=2e-3)


@pytest.mark.parametrize("shape", [(6, 7), (3, 4, 5)])
def test_axis_by_axis_is_the_matrix(shape):
    images = np.random.default_rng(0).random((2, *shape))
    by_axes = Problem.create(images, reg=0.1)
    assert by_axes.support.grid is not None
    by_matrix = Problem.create(
        images.reshape(2, -1), by_axes.support.points, reg=0.1,
        cost=lambda a, b: ((a[:, None] - b[None]) ** 2).sum(axis=2),
    )  # fmt: skip
    log_q, v = np.random.default_rng(1).normal(size=(2, by_axes.support.size))
    np.testing.assert_allclose(
        SelfTransport(by_axes).response(log_q, v), SelfTransport(by_matrix).response(log_q, v), atol=1e-10
    )


def test_where_there_is_no_mass_it_is_the_identity_and_finite():
    log_q = np.full(40, -1e6)
    log_q[:5] = 0.0
    v = np.random.default_rng(0).normal(size=40)
    found = line(1e-3).response(log_q, v)
    assert np.isfinite(found).all()


def test_a_given_matrix_of_costs_is_enough():
    cost = np.random.default_rng(0).random((12, 9))
    problem = Problem.create(np.random.default_rng(1).random((3, 9)), reg=0.1, cost=cost)
    found = SelfTransport(problem).response(np.zeros(12), np.arange(12.0))
    assert np.isfinite(found).all()
