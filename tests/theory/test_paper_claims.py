"""What the paper claims, tested: its lemmas and theorems where they hold, its misprints where they do not.

The numbers of the errata are those of ``docs/explanation/errata.md``.
"""

from __future__ import annotations

import math
from functools import cache

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.block_descent import asbcds, pasbcds
from barymesh.decentralized.baselines.steps import theoretical_step
from barymesh.decentralized.baselines.theta import ThetaSequence
from barymesh.oracle import build_oracle
from tests.oracle.plain import node_oracle

seeds = st.integers(0, 2**32)


def laplacian(graph):
    return nx.laplacian_matrix(graph).toarray().astype(float)


def square_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    # the root of a zero that came out as 1e-17 would be 3e-9
    values[values < 1e-9] = 0.0
    return (vectors * np.sqrt(values)) @ vectors.T


def random_graph(rng, m):
    """Connected: a complete graph, a cycle, a path, a star, or a random tree with some more edges."""
    kind = rng.integers(5)
    if kind < 4:
        return [nx.complete_graph, nx.cycle_graph, nx.path_graph, lambda m: nx.star_graph(m - 1)][kind](m)
    graph = nx.Graph([(int(rng.integers(node)), node) for node in range(1, m)])
    graph.add_edges_from(rng.choice(m, 2, replace=False).tolist() for _ in range(m // 2))
    return graph


# Lemma 2: the theta sequence; erratum 1


@given(m=st.integers(1, 10**5), k=st.integers(1, 10**5))
@settings(max_examples=60)
def test_lemma_2_bounds_theta(m, k):
    theta = ThetaSequence(m).at([k])[0]
    assert 1 / (k - 1 + 2 * m) <= theta <= 2 / (k - 1 + 2 * m) * (1 + 1e-15)


@given(m=st.integers(1, 10**5), k=st.integers(1, 10**5))
@settings(max_examples=60)
def test_lemma_2_links_neighbours(m, k):
    theta, following = ThetaSequence(m).at([k, k + 1])
    assert (1 - following) / following**2 == pytest.approx(1 / theta**2, rel=1e-14)


@given(m=st.integers(1, 300), n=st.integers(1, 1000))
def test_erratum_1_a_start_at_one_over_n_breaks_lemma_2(m, n):
    """It holds for m blocks from 1/n on only if m <= n <= 2m: with fewer support points than nodes theta starts too
    high, with more than twice as many too low."""
    theta = ThetaSequence(n).at(np.arange(1, 200))
    low, high = 1 / (np.arange(199) + 2 * m), 2 / (np.arange(199) + 2 * m)
    holds = ((low <= theta * (1 + 1e-14)) & (theta <= high * (1 + 1e-14))).all()
    assert holds == (m <= n <= 2 * m)


def test_erratum_1_in_the_papers_experiment():
    """500 nodes, 100 support points: v would at first be moved the wrong way, since 1 - m theta is negative."""
    m, n = 500, 100
    assert 1 - m * ThetaSequence(n).at([1])[0] == pytest.approx(-4)
    assert (1 - m * ThetaSequence(m).at(np.arange(1, 10_000)) >= -1e-13).all()


# ASBCDS and PASBCDS; erratum 5


class Quadratic:
    """``phi(x) = x'Ax/2 - b'x`` for m blocks of d numbers."""

    def __init__(self, hessian, slope, m):
        self.hessian, self.slope, self.m = hessian, slope, m
        self.smoothness = float(np.linalg.eigvalsh(hessian)[-1])
        self.optimum = np.linalg.lstsq(hessian, slope, rcond=None)[0].reshape(m, -1)

    @classmethod
    def random(cls, rng, m, d):
        factor = rng.normal(size=(m * d, m * d))
        return cls(factor @ factor.T / (m * d), rng.normal(size=m * d), m)

    def value(self, x):
        return float(x.ravel() @ self.hessian @ x.ravel() / 2 - self.slope @ x.ravel())

    def gradient(self, x, block):
        return (self.hessian @ x.ravel() - self.slope).reshape(self.m, -1)[block]


@given(seed=seeds, m=st.integers(1, 6), d=st.integers(1, 3), longest=st.integers(0, 8))
@settings(max_examples=40)
def test_asbcds_and_pasbcds_make_the_same_points(seed, m, d, longest):
    rng = np.random.default_rng(seed)
    problem, ages = Quadratic.random(rng, m, d), rng.integers(0, longest + 1, size=(80, m))
    options = {
        "step": 0.1 / problem.smoothness,
        "iterations": 80,
        "staleness": ages,
        "seed": seed,
        "record_every": 1,
    }
    start = rng.normal(size=(m, d))
    full, practical = (method(problem.gradient, start, **options) for method in (asbcds, pasbcds))
    scale = np.abs(full.trajectory).max()
    np.testing.assert_allclose(practical.trajectory, full.trajectory, atol=1e-12 * max(scale, 1))


def closed_form_asbcds(problem, start, step, ages, chosen, with_missing_term):
    """ASBCDS with omega by the closed form of its line 3, as printed or with the term that it lacks:

    omega = eta_j + sum_{i=j}^k rho_i (lambda_j - eta_{j-1} + (1/m - theta_j)/(1 - theta_j) (eta_j - lambda_j))
    """
    m, count = problem.m, len(ages)
    theta = np.concatenate([[np.nan], ThetaSequence(m).at(np.arange(1, count + 2))])
    eta, zeta, lam = [start], [start], [start]
    for k in range(count):
        lam.append(theta[k + 1] * zeta[k] + (1 - theta[k + 1]) * eta[k])
        omega = np.empty_like(start)
        for p in range(m):
            j = max(k - ages[k, p], 0)
            if j == 0:
                # nothing moved before the start
                omega[p] = start[p]
                continue
            rho = np.cumprod([theta[i + 1] * (1 - theta[i]) / theta[i] for i in range(j, k + 1)])
            direction = lam[j][p] - eta[j - 1][p]
            if with_missing_term:
                direction = direction + (1 / m - theta[j]) / (1 - theta[j]) * (eta[j][p] - lam[j][p])
            omega[p] = eta[j][p] + rho.sum() * direction
        i = chosen[k]
        zeta.append(zeta[k].copy())
        zeta[k + 1][i] -= step / (m * theta[k + 1]) * problem.gradient(omega, i)
        eta.append(lam[k + 1] + m * theta[k + 1] * (zeta[k + 1] - zeta[k]))
    return eta[-1]


@pytest.mark.parametrize("seed", range(5))
def test_erratum_5_the_printed_closed_form_lacks_a_term(seed):
    rng = np.random.default_rng(seed)
    m, count = 5, 60
    problem = Quadratic.random(rng, m, 1)
    ages, chosen = rng.integers(0, 5, size=(count, m)), rng.integers(m, size=count)
    start, step = rng.normal(size=(m, 1)), 0.1 / problem.smoothness
    practical = pasbcds(
        problem.gradient,
        start,
        step=step,
        iterations=count,
        staleness=ages,
        blocks=chosen,
    ).point
    printed, mended = (closed_form_asbcds(problem, start, step, ages, chosen, term) for term in (False, True))
    assert np.abs(printed - practical).max() > 1e-5
    np.testing.assert_allclose(mended, practical, atol=1e-12)


def test_erratum_5_also_without_staleness():
    """The printed omega is not even lambda_{k+1} when every block is fresh."""
    rng = np.random.default_rng(1)
    problem = Quadratic.random(rng, 5, 1)
    fresh, chosen, start = np.zeros((60, 5), dtype=int), rng.integers(5, size=60), rng.normal(size=(5, 1))
    practical = pasbcds(problem.gradient, start, step=0.1, iterations=60, blocks=chosen).point
    assert np.abs(closed_form_asbcds(problem, start, 0.1, fresh, chosen, False) - practical).max() > 1e-5
    np.testing.assert_allclose(closed_form_asbcds(problem, start, 0.1, fresh, chosen, True), practical, atol=1e-12)


# the main theorem


def nesterovs_worst(m):
    """The ill-conditioned quadratic of a chain: second differences, pulled at one end."""
    chain = 2 * np.eye(m) - np.eye(m, k=1) - np.eye(m, k=-1)
    return Quadratic(chain, np.eye(m)[0], m)


@pytest.mark.parametrize("tau", [0, 1, 3])
def test_the_main_theorem_bounds_the_error_without_noise(tau):
    """On average over the choice of blocks, and for every k:

    phi(eta_k) - phi* <= theta_k^2 / theta_1^2 (phi(eta_0) - phi* + |eta_0 - eta*|^2 / (2 gamma))

    which is O(1/k^2).
    """
    m, count = 12, 6000
    problem = nesterovs_worst(m)
    step = theoretical_step(problem.smoothness, tau, m)
    best, start = problem.value(problem.optimum), np.zeros((m, 1))
    gaps = []
    for seed in range(4):
        ages = np.random.default_rng(seed).integers(0, tau + 1, size=(count, m))
        run = asbcds if seed == 0 else pasbcds
        found = run(
            problem.gradient,
            start,
            step=step,
            iterations=count,
            staleness=ages,
            seed=seed,
            record_every=50,
        )
        gaps.append([problem.value(point) - best for point in found.trajectory])
    gap = np.mean(gaps, axis=0)
    distance = float(((start - problem.optimum) ** 2).sum())
    bound = (m * ThetaSequence(m).at(found.steps)) ** 2 * (problem.value(start) - best + distance / (2 * step))
    assert (gap <= bound).all()
    assert gap[-1] < 0.5 * (problem.value(start) - best)


@given(m=st.integers(1, 300), h=st.integers(1, 3000), late=st.integers(1, 300))
def test_a_change_that_is_missed_counts_at_most_one_plus_its_age_over_m(m, h, late):
    """Step 1 of the proof, for the mended omega: if step k = h - 1 + late misses the change ``eta_h - lambda_h`` of a
    block, lambda_{k+1} - omega has it times ``rho + (1 - rho)/(m theta_h)``, where rho = (theta_{k+1}/theta_h)^2. A
    block seen s steps late misses s changes at most, with late = 1..s, so that tau = s in the condition on gamma."""
    theta, later = ThetaSequence(m).at([h, h + late])
    delta, rho = 1.0, (later / theta) ** 2
    u, v = -delta, (1 - m * theta) / theta**2 * delta
    counted = (u + later**2 * v) / (-m * theta * delta)
    assert counted == pytest.approx(rho + (1 - rho) / (m * theta), rel=1e-10)
    assert counted <= (1 + late / m) * (1 + 1e-12)


@given(m=st.integers(1, 500), ratio=st.floats(1e3, 1e5))
@settings(max_examples=30)
def test_the_steps_needed_are_twice_as_many_as_printed(m, ratio):
    """For ``theta_{K+1}^2/theta_1^2 A <= epsilon/2``, with ``ratio = A/epsilon``: the printed ``K = sqrt(2 m^2 ratio)``
    uses the lower bound on theta where the upper one is needed; ``sqrt(8 m^2 ratio)`` is enough."""
    printed, enough = math.ceil(math.sqrt(2 * ratio) * m), math.ceil(math.sqrt(8 * ratio) * m)
    remaining = (m * ThetaSequence(m).at([printed + 1, enough + 1])) ** 2 * ratio
    assert remaining[0] > 0.5
    assert remaining[1] <= 0.5


@pytest.mark.parametrize("tau", [0, 2])
def test_acceleration_beats_plain_block_descent_at_the_same_step(tau):
    m, count = 30, 20_000
    problem = nesterovs_worst(m)
    step = theoretical_step(problem.smoothness, tau, m)
    rng = np.random.default_rng(tau)
    chosen, ages = rng.integers(m, size=count), rng.integers(0, tau + 1, size=(count, m))
    accelerated = pasbcds(
        problem.gradient,
        np.zeros((m, 1)),
        step=step,
        iterations=count,
        staleness=ages,
        blocks=chosen,
    ).point
    plain = np.zeros((m, 1))
    for i in chosen:
        # fresh values, which can only help it
        plain[i] -= step * problem.gradient(plain, i)
    best = problem.value(problem.optimum)
    assert problem.value(accelerated) - best < 0.5 * (problem.value(plain) - best)


# Theorem 1: from the dual to the primal; erratum 4


class Decentralised:
    """A barycenter problem over a network: ``phi(lam) = sum_i W*_i([sqrt(W) lam]_i)``, and its optimum."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        m, n, d = int(rng.integers(2, 7)), int(rng.integers(2, 9)), int(rng.integers(1, 3))
        self.m, self.n, self.reg = m, n, float(10 ** rng.uniform(-1.5, 0.5))
        measures = [bm.Empirical(rng.normal(size=(int(rng.integers(1, 7)), d))) for _ in range(m)]
        support = rng.normal(size=(n, d))
        self.problem = bm.Problem.create(measures, support, reg=self.reg)
        atoms = self.problem.atoms
        self.oracle = build_oracle(atoms, self.problem.support, self.problem.cost, self.reg)
        self.laplacian = laplacian(random_graph(rng, m))
        self.root = square_root(self.laplacian)
        self.lambda_max = float(np.linalg.eigvalsh(self.laplacian)[-1])
        result = bm.barycenter(measures, support, reg=self.reg, tol=1e-11, max_iter=100_000)
        assert result.success
        self.p = result.weights
        self.optimum = np.linalg.pinv(self.root, rcond=1e-9) @ result.duals
        self.best, _ = self.phi(self.optimum)

    def phi(self, lam):
        """The dual function at ``lam (m, n)``, and the nodes' estimates there."""
        value, p = self.oracle.value_and_gradient(self.root @ lam)
        return float(value.sum()), p


@cache
def decentralised(seed):
    return Decentralised(seed)


dual_points = {"which": st.integers(0, 19), "seed": seeds, "log_distance": st.floats(-3, 2)}


def at_a_dual_point(which, seed, log_distance):
    """``phi - phi*``, the squared distance to the primal optimum, and the squared consensus distance."""
    network = decentralised(which)
    shift = 10**log_distance * network.reg * np.random.default_rng(seed).normal(size=(network.m, network.n))
    value, p = network.phi(network.optimum + shift)
    return network, value - network.best, ((p - network.p) ** 2).sum(), ((network.root @ p) ** 2).sum()


@given(**dual_points)
def test_theorem_1_bounds_the_distance_to_the_primal_optimum(which, seed, log_distance):
    network, gap, distance, _ = at_a_dual_point(which, seed, log_distance)
    assert distance <= 2 / network.reg * gap + 1e-10


@given(**dual_points)
def test_theorem_1_bounds_the_consensus_distance_with_the_factor_2(which, seed, log_distance):
    network, gap, _, consensus = at_a_dual_point(which, seed, log_distance)
    assert consensus <= 2 * network.lambda_max / network.reg * gap + 1e-10


@given(**dual_points)
def test_erratum_4_for_barycenters_the_printed_bound_happens_to_hold(which, seed, log_distance):
    """The Hessian of W* is an average of ``(diag(s) - s s')/reg``, whose eigenvalues are at most 1/(2 reg), half of
    the smoothness that the proof uses. That makes up for the missing factor, in both bounds."""
    network, gap, distance, consensus = at_a_dual_point(which, seed, log_distance)
    assert consensus <= network.lambda_max / network.reg * gap + 1e-10
    assert distance <= 1 / network.reg * gap + 1e-10


@given(seed=seeds, n=st.integers(2, 12))
def test_erratum_4_the_hessian_of_the_softmax_is_at_most_a_half(seed, n):
    s = np.random.default_rng(seed).dirichlet(np.full(n, 0.3))
    assert np.linalg.eigvalsh(np.diag(s) - np.outer(s, s))[-1] <= 0.5 + 1e-14


def test_erratum_4_no_smaller_constant_would_do_for_barycenters():
    """Two nodes, two support points, every atom halfway: close to the optimum the printed bound is an equality."""
    reg, t = 0.7, 1e-3
    p, value = [], 0.0
    for sign in (1, -1):
        node_value, log_p = node_oracle(np.array([t, -t]) * sign, np.zeros((1, 2)), np.ones(1), reg)
        value += node_value
        p.append(np.exp(log_p))
    gap, consensus = value - 2 * reg * math.log(2), ((p[0] - p[1]) ** 2).sum()
    assert consensus / (2 / reg * gap) == pytest.approx(1, rel=1e-5)


@given(seed=seeds, m=st.integers(2, 6), mu=st.floats(0.1, 10))
def test_erratum_4_in_general_the_printed_bound_fails(seed, m, mu):
    """Theorem 1 is stated for every mu-strongly convex F. With ``F(x) = mu |x - a|^2 / 2`` the dual is ``phi(eta) =
    |sqrt(W) eta|^2 / (2 mu) + <sqrt(W) eta, a>``, the primal of eta is ``a + sqrt(W) eta / mu``, and along the
    eigenvector of lambda_max the bound with the factor 2 is an equality."""
    rng = np.random.default_rng(seed)
    matrix = laplacian(random_graph(rng, m))
    root = square_root(matrix)
    values, vectors = np.linalg.eigh(matrix)
    a = rng.normal(size=m)

    def phi(eta):
        return (root @ eta) @ (root @ eta) / (2 * mu) + (root @ eta) @ a

    best = -mu * np.linalg.pinv(root, rcond=1e-9) @ a
    eta = best + vectors[:, -1]
    gap, consensus = phi(eta) - phi(best), ((root @ (a + root @ eta / mu)) ** 2).sum()
    assert consensus > 1.9 * values[-1] / mu * gap
    assert consensus <= 2 * values[-1] / mu * gap * (1 + 1e-9)


# Lemma 1: the gradient and its estimate; erratum 3


@pytest.mark.parametrize("which", range(6))
def test_lemma_1_gradient_of_the_dual(which):
    """Block i of the gradient is ``sum_j sqrt(W)_ij p_j``: the estimate of neighbour j comes from its measure mu_j."""
    network = decentralised(which)
    lam = network.reg * np.random.default_rng(which).normal(size=(network.m, network.n))
    _, p = network.phi(lam)
    width = 1e-5 * network.reg
    by_differences = np.empty_like(lam)
    for place in np.ndindex(lam.shape):
        shift = np.zeros_like(lam)
        shift[place] = width
        by_differences[place] = (network.phi(lam + shift)[0] - network.phi(lam - shift)[0]) / (2 * width)
    np.testing.assert_allclose(network.root @ p, by_differences, atol=1e-7)


def test_erratum_3_with_the_measure_of_node_i_it_would_not_be_the_gradient():
    """Lemma 1 prints mu_i. With it, block i would be ``sum_j sqrt(W)_ij grad W*_{mu_i}(etabar_j)``."""
    network = decentralised(0)
    bars = network.root @ (network.reg * np.random.default_rng(0).normal(size=(network.m, network.n)))
    as_printed = np.empty_like(bars)
    for i in range(network.m):
        _, p = network.oracle.value_and_gradient(bars, np.full(network.m, i))
        as_printed[i] = network.root[i] @ p
    _, p = network.oracle.value_and_gradient(bars)
    assert np.abs(as_printed - network.root @ p).max() > 1e-2


def softmax_rows(seed):
    """A node's measure as weighted atoms, and the softmax at each atom: ``weights (N,)``, ``s (N, n)``."""
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(2, 8)), int(rng.integers(2, 12))
    scores = rng.normal(size=(count, n)) * 10 ** rng.uniform(-1, 1)
    s = np.exp(scores - scores.max(axis=1, keepdims=True))
    return rng.dirichlet(np.ones(count)), s / s.sum(axis=1, keepdims=True)


@given(seed=seeds, batch=st.integers(1, 20))
@settings(max_examples=25)
def test_lemma_1_the_estimate_is_unbiased_and_its_variance_is_below_one_over_the_batch(seed, batch):
    weights, s = softmax_rows(seed)
    p = weights @ s
    repetitions = 20_000
    counts = np.random.default_rng(seed).multinomial(batch, weights, size=repetitions)
    estimates = counts @ s / batch
    errors = ((estimates - p) ** 2).sum(axis=1)
    five_deviations = 5 / math.sqrt(repetitions)
    assert (np.abs(estimates.mean(axis=0) - p) <= five_deviations * estimates.std(axis=0) + 1e-12).all()
    exact = (weights @ (s**2).sum(axis=1) - p @ p) / batch
    assert abs(errors.mean() - exact) <= five_deviations * errors.std() + 1e-12
    assert exact <= 1 / batch
    assert errors.mean() <= 1 / batch + five_deviations * errors.std()


@pytest.mark.parametrize("graph", [nx.cycle_graph(12), nx.complete_graph(6), nx.path_graph(9), nx.star_graph(7)])
def test_the_variance_of_the_whole_gradient_is_bounded_by_the_trace_and_not_by_lambda_max(graph):
    """Lemma 1 prints lambda_max(W)/M. With independent draws ``E |sqrt(W)(g - p)|^2 = sum_i deg(i) E |g_i - p_i|^2``,
    which may come up to trace(W)/M; lambda_max(W)/M bounds what one block of the gradient has. Here every draw is a
    vertex of the simplex, taken at random: the variance of a node is 1 - 1/n."""
    matrix, n, repetitions = laplacian(graph), 5, 20_000
    m = len(matrix)
    draws = np.random.default_rng(m).integers(n, size=(repetitions, m))
    noise = np.eye(n)[draws] - 1 / n
    whole = np.einsum("rin,ij,rjn->r", noise, matrix, noise)
    slack = 5 * whole.std() / math.sqrt(repetitions)
    assert whole.mean() == pytest.approx(np.trace(matrix) * (1 - 1 / n), abs=slack)
    assert whole.mean() - slack > np.linalg.eigvalsh(matrix)[-1]
    blocks = ((np.einsum("ij,rjn->rin", square_root(matrix), noise)) ** 2).sum(axis=2)
    assert (blocks.mean(axis=0) <= np.linalg.eigvalsh(matrix)[-1]).all()


# the update of A2DWB; errata 2 and 6


@given(seed=seeds, m=st.integers(2, 9))
def test_erratum_2_the_update_vanishes_at_consensus_only_with_the_degree(seed, m):
    rng = np.random.default_rng(seed)
    matrix, p = laplacian(random_graph(rng, m)), rng.dirichlet(np.ones(4))
    for i, row in enumerate(matrix):
        from_neighbours = sum(row[j] * p for j in range(m) if j != i)
        degree = row[i]
        np.testing.assert_allclose(degree * p + from_neighbours, 0, atol=1e-12)
        np.testing.assert_allclose(p + from_neighbours, (1 - degree) * p, atol=1e-12)


@given(seed=seeds, m=st.integers(2, 9))
def test_erratum_6_one_block_of_u_moves_every_block_of_the_dual(seed, m):
    """sqrt(W) of a connected network has no zeros. A step of PASBCDS on one block of u therefore moves ``ubar = sqrt(W)
    u`` everywhere, with sum zero; A2DWB moves one block of ubar, and so its sum."""
    rng = np.random.default_rng(seed)
    matrix = laplacian(random_graph(rng, m))
    root = square_root(matrix)
    assert np.abs(root).min() > 1e-4
    i, p = int(rng.integers(m)), rng.dirichlet(np.ones(4), size=m)
    by_pasbcds = np.outer(root[:, i], root[i] @ p)
    assert (np.abs(by_pasbcds).max(axis=1) > 0).all()
    np.testing.assert_allclose(by_pasbcds.sum(axis=0), 0, atol=1e-12)
    by_a2dwb = np.zeros_like(p)
    by_a2dwb[i] = matrix[i] @ p
    assert np.abs(by_a2dwb.sum(axis=0)).max() > 1e-6


@given(seed=seeds, m=st.integers(2, 9))
def test_erratum_6_on_average_over_the_blocks_both_steps_agree(seed, m):
    """Which is why A2DWB looks right: ``sum_i`` of either step is ``W p``."""
    rng = np.random.default_rng(seed)
    matrix = laplacian(random_graph(rng, m))
    root, p = square_root(matrix), rng.dirichlet(np.ones(4), size=m)
    by_pasbcds = sum(np.outer(root[:, i], root[i] @ p) for i in range(m))
    np.testing.assert_allclose(by_pasbcds, matrix @ p, atol=1e-12)
