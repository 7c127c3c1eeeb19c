"""Transport plans: right marginals, the same in every form, and those that POT finds."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh import coupling as coupling_module
from barymesh.errors import AccuracyWarning, CostError, DimensionError, MeasureError, OptionError

POINTS = np.linspace(-3, 4, 23)


def oblique(z, y):
    """A cost that is not symmetric."""
    return np.abs(z[:, :1] - 1.3 * y[:, 0] + 0.2) ** 1.5


def problems():
    """Measures, support and options that take every path through the oracles."""
    rng = np.random.default_rng(3)
    clouds = [rng.normal(size=(17, 2)), bm.Empirical(rng.normal(1, 0.5, (11, 2)), rng.random(11) + 0.1)]
    images = rng.random((3, 6, 5)) * (rng.random((3, 6, 5)) > 0.4)
    scattered = rng.random((20, 2))
    return {
        "clouds": (clouds, None, {"reg": 0.2, "weights": [1, 4]}),
        "images": (images, None, {"reg": 0.01, "weights": [5, 1, 1]}),
        "images at small reg": (images, None, {"reg": 2e-4, "weights": [5, 1, 1]}),
        "volumes": (rng.random((2, 3, 4, 3)), None, {"reg": 0.02}),
        "line": (rng.random((3, 23)), POINTS, {"reg": 0.05}),
        "scattered": (rng.random((3, 20)), scattered, {"reg": 0.02}),
        "Gaussians": ([bm.Gaussian(-1, 0.5), bm.Gaussian(2, 0.3)], POINTS, {"reg": 0.1}),
        "sampler": ([lambda size, rng: rng.normal(size=(size, 1)), [0.0, 1.0]], POINTS, {"reg": 0.3, "samples": 30}),
        "matrix": (rng.random((2, 9)), None, {"reg": 0.1, "cost": rng.random((7, 9))}),
        "function": ([rng.normal(size=8), rng.normal(size=5)], POINTS, {"reg": 0.1, "cost": oblique}),
        "cityblock": (images, None, {"reg": 0.05, "cost": "cityblock"}),
    }


PROBLEMS = problems()


@pytest.fixture(scope="module", params=PROBLEMS)
def result(request):
    measures, support, options = PROBLEMS[request.param]
    return bm.barycenter(measures, support, tol=1e-9, max_iter=20_000, **options)


def costs_of(result, i):
    return result.problem.cost.matrix(result.support.points, result.problem.atoms_of(i).table)


def test_the_marginals_are_the_measure_and_the_barycenter(result):
    for i in range(len(result.duals)):
        plan, atoms = result.plan(i), result.problem.atoms_of(i)
        masses = np.bincount(atoms.index, atoms.weights, len(atoms.table))
        assert plan.shape == (result.support.size, len(atoms.table))
        np.testing.assert_allclose(plan.sum(axis=0), masses, atol=1e-13)
        np.testing.assert_allclose(plan.sum(axis=1), result.node_weights[i], atol=1e-12)
        np.testing.assert_allclose(plan.sum(axis=1), result.weights, atol=2e-8)


def test_all_forms_are_one_plan(result):
    rng = np.random.default_rng(0)
    for i in range(len(result.duals)):
        dense, sparse, operator = (result.plan(i, form) for form in ("dense", "sparse", "operator"))
        assert sparse.shape == operator.shape == dense.shape
        assert np.abs(sparse - dense).sum() < 1e-8
        np.testing.assert_allclose(sparse.sum(axis=0), dense.sum(axis=0), atol=1e-14)
        for v, u in [
            (rng.normal(size=dense.shape[1]), rng.normal(size=dense.shape[0])),
            (np.eye(dense.shape[1])[-1], np.eye(dense.shape[0])[0]),
            (-rng.random(dense.shape[1]), -rng.random(dense.shape[0])),
            (np.zeros(dense.shape[1]), np.zeros(dense.shape[0])),
        ]:
            np.testing.assert_allclose(operator @ v, dense @ v, atol=1e-12)
            np.testing.assert_allclose(operator.T @ u, dense.T @ u, atol=1e-12)
        block = rng.normal(size=(dense.shape[1], 2))
        np.testing.assert_allclose(operator @ block, dense @ block, atol=1e-12)


def test_the_cost_is_that_of_the_plan(result, monkeypatch):
    for i in range(len(result.duals)):
        expected = float((result.plan(i) * costs_of(result, i)).sum())
        assert result.cost(i) == pytest.approx(expected, rel=1e-10)
        with monkeypatch.context() as patched:
            patched.setattr("barymesh.coupling.BLOCK", 8)
            assert result.cost(i) == pytest.approx(expected, rel=1e-10)
            np.testing.assert_allclose(result.plan(i), result.plan(i, "dense"), atol=1e-15)


def test_value_is_the_cost_and_the_entropy(result):
    """``value = sum_i w_i (<C, P_i> + reg KL(P_i | counting x mu_i))``."""
    total = 0.0
    for i, weight in enumerate(result.problem.weights):
        plan = result.plan(i)
        masses = np.broadcast_to(plan.sum(axis=0), plan.shape)
        some = plan > 0
        entropy = (plan[some] * np.log(plan[some] / masses[some])).sum()
        total += weight * (result.cost(i) + result.reg * entropy)
    assert total == pytest.approx(result.value, abs=1e-6 * (1 + abs(result.value)))


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.floats(-1.5, 1),
    st.lists(st.floats(0.02, 20), min_size=2, max_size=3),
)
def test_pot_finds_the_same_plan(seed, d, log_reg, weights):
    rng = np.random.default_rng(seed)
    measures = [bm.Empirical(rng.normal(rng.normal(), rng.uniform(0.1, 2), (rng.integers(1, 12), d))) for _ in weights]
    measures[0] = bm.Empirical(measures[0].points, rng.random(len(measures[0].points)) ** 4 + 1e-6)
    support = rng.normal(size=(15, d))
    result = bm.barycenter(measures, support, reg=10**log_reg * d, weights=weights, tol=1e-9)
    for i, measure in enumerate(measures):
        costs = ot.dist(support, measure.points)
        expected = ot.sinkhorn(
            result.node_weights[i], measure.weights, costs, result.reg, method="sinkhorn_log", stopThr=1e-11,
            numItermax=3000, warn=False,
        )  # fmt: skip
        if np.abs(expected.sum(axis=0) - measure.weights).sum() < 1e-9:
            assert np.abs(result.plan(i) - expected).sum() < 1e-6


def test_large_plans_are_not_written_out(monkeypatch):
    monkeypatch.setattr(coupling_module, "DENSE_ENTRIES", 400)
    rng = np.random.default_rng(0)
    image = bm.barycenter(rng.random((2, 6, 5)), reg=0.05)
    cloud = bm.barycenter([rng.normal(size=(30, 2)), rng.normal(size=(20, 2))], rng.normal(size=(15, 2)), reg=0.5)
    assert type(image.plan(0)).__name__.endswith("LinearOperator")
    assert type(cloud.plan(0)).__name__ == "csr_array"
    assert type(cloud.plan(1)) is np.ndarray


def test_measures_have_numbers_and_labels():
    north, south = bm.Empirical([0.0, 1.0], label="north"), bm.Empirical([2.0], label="south")
    result = bm.barycenter([north, south], POINTS, reg=0.3)
    assert result.labels == ("north", "south")
    np.testing.assert_array_equal(result.plan("south"), result.plan(1))
    np.testing.assert_array_equal(result.plan(-1), result.plan(1))
    with pytest.raises(MeasureError, match=r"called 'west'.*north, south"):
        result.plan("west")
    with pytest.raises(MeasureError, match="no measure 2: the result has 2"):
        result.cost(2)
    with pytest.raises(OptionError, match="whole number"):
        result.map(0.5)
    with pytest.raises(OptionError, match="form is 'full'; choose one of dense, sparse, operator"):
        result.plan(0, "full")
    with pytest.raises(MeasureError, match="no labels; give a number"):
        bm.barycenter([[0.0], [1.0]], POINTS, reg=0.3).plan("north")


def kept(result, tmp_path):
    """The result from a file and from a pickle."""
    return bm.load(result.save(tmp_path / "result")), pickle.loads(pickle.dumps(result)), copy.deepcopy(result)


def test_files_and_pickles_hold_no_data_and_say_so(result, tmp_path):
    measures = result.problem.measures
    own_cost = result.problem.cost.function or result.problem.cost.matrix_given
    for other in kept(result, tmp_path):
        with pytest.raises(MeasureError, match=r"Measure 1: The measure is not here.*with_measures"):
            other.plan(1)
        np.testing.assert_array_equal(other.problem.weights, result.problem.weights)
        if own_cost is not None:
            with pytest.raises(CostError, match="with_measures"):
                other.map(0)(result.support.points)
        given = [bm.Histogram(m.masses) if result.problem.cost.matrix_given is not None else m for m in measures]
        whole = other.with_measures(given, cost=own_cost)
        np.testing.assert_array_equal(whole.plan(1), result.plan(1))
        one = other.with_measures([None, *given[1:]], cost=own_cost)
        assert one.cost(1) == result.cost(1)
        with pytest.raises(MeasureError, match="Measure 0: The measure is not here"):
            one.cost(0)


def test_pickles_of_results_of_functions_work():
    result = bm.barycenter([lambda size, rng: rng.normal(size=size), [1.0]], POINTS, reg=0.3, samples=20)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(result)).weights, result.weights)
    np.testing.assert_array_equal(copy.copy(result).plan(0), result.plan(0))


def test_the_wrong_measures_are_noticed(tmp_path):
    measures = [bm.Gaussian(-1, 0.5), bm.Gaussian(2, 0.3)]
    loaded = bm.load(bm.barycenter(measures, POINTS, reg=0.1).save(tmp_path / "two"))
    with pytest.warns(AccuracyWarning, match="in the order"):
        loaded.with_measures(measures[::-1])
    with pytest.raises(MeasureError, match="of 2 measures, and 1 were given"):
        loaded.with_measures(measures[:1])
    with pytest.raises(DimensionError):
        loaded.with_measures([None, bm.Gaussian([0, 0], 1)])


def test_results_of_networks_have_plans():
    """Of the nodes that are left, as those know their measures."""
    rng = np.random.default_rng(0)
    measures = [bm.Gaussian(-1, 0.5), rng.normal(size=30), bm.Gaussian(2, 0.3), bm.Gaussian(0, 1)]
    options = {"reg": 0.2, "network": "complete", "delays": "constant:seconds=0.1", "duration": 60}
    result = bm.barycenter(measures, POINTS, events=["leave:node=0,at=2"], **options)
    assert result.success
    assert len(result.duals) == 3
    exact = bm.barycenter(measures[1:], POINTS, reg=0.2)
    for i in range(3):
        np.testing.assert_allclose(result.plan(i), exact.plan(i), atol=1e-5)
        np.testing.assert_allclose(result.plan(i).sum(axis=1), result.node_weights[i], atol=1e-12)
    drawn = bm.barycenter([lambda size, rng: rng.normal(size=size), measures[0]], POINTS, **{**options, "duration": 5})
    np.testing.assert_allclose(drawn.plan(0).sum(axis=1), drawn.node_weights[0], atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 20), (3, 5, 6)])
def test_an_array_of_measures_is_given_again_as_it_was(shape, tmp_path):
    measures = np.random.default_rng(0).random(shape)
    result = bm.barycenter(measures, np.linspace(0, 1, 20) if len(shape) == 2 else None, reg=0.02)
    whole = bm.load(result.save(tmp_path / "mean")).with_measures(measures)
    np.testing.assert_array_equal(whole.plan(1), result.plan(1))
    assert whole.cost(2) == result.cost(2)
