"""Where the records of a node are cannot be read from masked sums, whatever the root asks for.

For squared distances: shift the records of every node such that the weighted mean of all stays where it is. Then no sum
changes, at any targets, in any order, to the last bit. So two worlds in which the records of a hospital are
elsewhere look the same to the root, and no attack tells one from the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barymesh as bm
from barymesh.decentralized.masks.sums import NOISE, MaskedSums
from barymesh.integrations.masked_star import MaskedSite, contribution_sums, weight_sums
from barymesh.integrations.star import StarOptions
from barymesh.methods.bures import Bures
from barymesh.methods.chosen_rounds import chosen_rounds
from barymesh.methods.free_orders import FreeOrder
from barymesh.methods.free_support import FreeSupportMethod
from barymesh.methods.orders import Order
from barymesh.problem import Problem
from tests.integrations.test_masked_star import identities

SEEDS = st.integers(0, 10**6)


def worlds(rng, dimension, place=0.0):
    """Weights, the records of some nodes, decimals, and others that are shifted such that the mean of all stays."""
    count = int(rng.integers(2, 5))
    weights = np.append(rng.integers(1, 6, count - 1), 1).astype(float)
    records = [rng.normal(rng.uniform(-1, 1), 0.5, (int(rng.integers(2, 12)), dimension)) for _ in range(count)]
    shifts = np.round(rng.uniform(-1, 1, (count, dimension)) / weights.sum(), 2)
    shifts[-1] = -weights[:-1] @ shifts[:-1]
    records = [np.round(some, 2) for some in records]
    return (
        weights,
        [np.round(place + some, 2) for some in records],
        [np.round(place + some + shift, 2) for some, shift in zip(records, shifts, strict=True)],
    )


def answers(method, weights, targets):
    """``(k, up)``: the averages of the contributions to the targets, one after the other."""
    count = len(weights)
    state, rows, yes = method.start(count), np.arange(count), np.ones(count, dtype=bool)
    found = []
    for target in targets:
        told = method.respond(state, rows, np.tile(target, (count, 1)), yes, yes)
        found.append(np.concatenate([weights @ part / weights.sum() for part in told.parts]))
    return np.array(found)


def lies(method, rng, rounds, size):
    """Targets that a root chooses as it likes, after the first, which has nothing in it."""
    targets = [np.zeros(method.down)]
    for _ in range(rounds):
        chosen = {
            Order.ACCEPTED: float(rng.random() < 0.7),
            Order.LENGTH: rng.random(),
            Order.PLAIN: float(rng.random() < 0.4),
            Order.DAMPING: 10 ** rng.uniform(-3, 1),
            Order.STAGE: float(rng.integers(0, method.last_stage + 1)),
            Order.CERTIFY: float(rng.random() < 0.2),
        }
        targets.append(method._answer(size * rng.normal(size=method.points), chosen).target)
    return targets


def apart(one, other):
    """By how much two sequences of answers differ, relative to the largest numbers in them."""
    return np.abs(one - other).max() / (1.0 + np.abs(one).max())


@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize("share", [0.03, 0.002, 2e-4])
@given(
    seed=SEEDS, shape=st.sampled_from([(40,), (150,), (7, 7)]), size=st.sampled_from([0.3, 3.0, 1e9]),
    place=st.sampled_from([0.0, 40.0, 1e3]),
)  # fmt: skip
@settings(max_examples=12)
def test_sums_on_a_fixed_support_do_not_tell_where_records_are(debias, share, seed, shape, size, place):
    """With matrices and without, wherever the support is, also where targets are so large that potentials are cut."""
    rng, dimension = np.random.default_rng(seed), len(shape)
    weights, *both = worlds(rng, dimension, place)
    axes = [np.linspace(-3, 3, count) for count in shape]
    support = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension) + place
    methods = rounds_of(both, support, reg=share * 36 * dimension, weights=weights, debias=debias)
    targets = lies(methods[0], rng, 4, size)
    one, other = (answers(method, weights, targets) for method in methods)
    assert_alike(methods[0].centring, one, other)
    assert one[:, methods[0].points * 2 + 1].any() == any(t[methods[0].points + Order.CERTIFY] > 0 for t in targets)


def rounds_of(both, support, **options):
    return [chosen_rounds(Problem.create(some, support, **options), len(some), masked=True) for some in both]


def assert_alike(centring, one, other):
    """The same to the last bit; but for where all are on average, which is the same up to the rounding of each node,
    and in all answers."""
    fixed = one.shape[1] - centring.size
    np.testing.assert_array_equal(one[:, :fixed], other[:, :fixed])
    size = 1.0 + np.abs(one[:, fixed:]).max()
    np.testing.assert_allclose(one[:, fixed:], other[:, fixed:], rtol=0, atol=1e-14 * size)
    for answers_of_one in (one, other):
        assert (answers_of_one[:, fixed:] == answers_of_one[0, fixed:]).all()


def told_apart(difference, nodes):
    """The total variation between the sums of the noise of so many nodes, and the same sums moved by the difference, in
    units of the noise."""
    noise = np.ones(1)
    for _ in range(nodes):
        noise = np.convolve(noise, np.full(NOISE, 1.0 / NOISE))
    moved = min(round(abs(difference)), noise.size)
    return 0.5 * np.abs(np.pad(noise, (moved, 0)) - np.pad(noise, (0, moved))).sum()


@pytest.mark.parametrize("weights", [[1, 1, 1], [1000, 1000, 1]])
@pytest.mark.parametrize(
    ("place", "length", "places"),
    [
        (0, 6, 1),
        (37, 6, 2),
        (2010, 20, 1),
        (1000, 6, 2),
        (100_000, 6, 1),
        (2_459_000, 6, 1),
        (1_700_000_000, 86_400, 0),
    ],
)
def test_the_sum_of_where_nodes_are_hides_how_each_is_rounded(place, length, places, weights):
    """Wherever the support is, in years, Julian days or seconds."""
    rng, units, weights = np.random.default_rng(place), 10**places, np.array(weights) / np.mean(weights)
    support, found = np.linspace(place - length / 2, place + length / 2, 41), []
    for _ in range(20):
        records = rng.integers(-length * units // 4, length * units // 4, (3, 5, 1))
        shift = int(rng.integers(1, length * units // 4))
        both = [
            (records + np.array(shifts)[:, None, None] + place * units) / units
            for shifts in ([0, 0, 0], [shift, -shift, 0])
        ]
        methods = rounds_of([list(world) for world in both], support, reg=0.05 * length**2)
        (one, noise), (other, _) = (fixed_sum(method, weights) for method in methods)
        found.append(told_apart((one - other) * NOISE / noise, 3))
    assert np.mean(found) <= 0.005
    assert max(found) <= 0.02


def fixed_sum(method, weights):
    """The sum of the words that do not change, before noise, and how large the noise is."""
    masked = MaskedSums(3, method.limits(), method.precise, method.fixed, method.fixed_sizes, 3.0)
    numbers, zeros, total = np.zeros(method.up), np.zeros(method.up, dtype=np.uint64), 0
    for weight, column in zip(weights, method.centring.columns(np.arange(3)), strict=True):
        numbers[method.fixed] = weight * column
        total += int(masked.parts.words(numbers, weight, zeros)[method.fixed].view(np.int64)[0])
    return total, float(masked.noise[0])


@pytest.mark.parametrize("place", [0, 20_000, 100_000])
def test_histograms_on_decimals_far_away_do_not_tell_where_they_are(place):
    rng = np.random.default_rng(place)
    masses, both = rng.integers(1, 9, (3, 5)), []
    for moves in ([0, 0, 0], [7, -3, -4]):
        points = [np.round(place + 0.1 * (np.arange(5) + move), 1) for move in moves]
        both.append([bm.Histogram(mass, some) for mass, some in zip(masses, points, strict=True)])
    methods = rounds_of(both, bm.Support.regular((41,), place - 2, place + 2), reg=0.2)
    targets = lies(methods[0], rng, 3, 2.0)
    assert_alike(methods[0].centring, *(answers(method, np.ones(3), targets) for method in methods))


def test_records_that_are_not_decimals_tell_no_more_than_their_rounding_does():
    """They are rounded to 1e-13 of their range, from the lowest on."""
    rng = np.random.default_rng(4)
    records = [rng.normal(size=(20, 2)) for _ in range(3)]
    shifted = [some + shift for some, shift in zip(records, [[0.7, 0.1], [-0.3, 0.2], [-0.4, -0.3]], strict=True)]
    axes = np.meshgrid(np.linspace(-3, 3, 9), np.linspace(-3, 3, 9))
    methods = rounds_of((records, shifted), np.stack(axes, axis=-1).reshape(-1, 2), reg=0.5)
    tables = [np.concatenate([atoms.points for atoms in method.transports.measured.atoms]) for method in methods]
    apart = np.abs(tables[0] - tables[1])
    assert apart.max() <= 1e-12
    assert (apart == 0).mean() >= 0.98


@given(seed=SEEDS, kind=st.sampled_from(["array", "images", "histograms"]))
@settings(max_examples=20)
def test_images_and_histograms_do_not_tell_where_on_their_grid_they_are(seed, kind):
    """Masses are divided by their sum: zeros beside them must not change how that is rounded."""
    rng = np.random.default_rng(seed)
    figures = rng.integers(1, 256, (3, 5, 4)) * rng.choice([1.0, 1 / 3])
    both = np.zeros((2, 3, 12, 12))
    for world, corners in zip(both, ([(2, 3), (4, 4), (6, 1)], [(4, 2), (3, 4), (5, 2)]), strict=True):
        for picture, figure, (row, column) in zip(world, figures, corners, strict=True):
            picture[row : row + 5, column : column + 4] = figure
    support = bm.Support.of_grid(bm.Grid.of_image((12, 12)))
    if kind == "images":
        both = [[bm.Image(one) for one in world] for world in both]
    elif kind == "histograms":
        support = bm.Support(np.linspace(0, 1, 144))
        both = [[bm.Histogram(one.ravel()) for one in world] for world in both]
    methods = rounds_of(both, support, reg=0.02)
    targets = lies(methods[0], rng, 3, 2.0)
    assert_alike(methods[0].centring, *(answers(method, np.ones(3), targets) for method in methods))


@given(seed=SEEDS, dimension=st.sampled_from([1, 2]), step=st.sampled_from([0.01, 0.05, 0.1, 0.3, 0.7]))
@settings(max_examples=20)
def test_measures_on_grids_of_their_own_do_not_tell_where_these_are(seed, dimension, step):
    rng = np.random.default_rng(seed)
    masses, corners = rng.integers(1, 9, (3, 5**dimension)), rng.integers(-20, 20, (3, dimension))
    both = []
    for moves in ([0, 0, 0], [7, -3, -4]):
        axes = [[(k + move + np.arange(5)) * step for k in corner] for corner, move in zip(corners, moves, strict=True)]
        points = [np.stack(np.meshgrid(*some, indexing="ij"), axis=-1).reshape(-1, dimension) for some in axes]
        both.append([bm.Histogram(mass, np.round(some, 2)) for mass, some in zip(masses, points, strict=True)])
    methods = rounds_of(both, bm.Support.regular((12,) * dimension, -30 * step, 30 * step), reg=40 * step**2)
    targets = lies(methods[0], rng, 3, 2.0)
    assert_alike(methods[0].centring, *(answers(method, np.ones(3), targets) for method in methods))


@pytest.mark.parametrize("constant", [1e6, 1e9, 1e12])
def test_a_large_constant_in_a_target_rounds_nothing(constant):
    rng = np.random.default_rng(5)
    weights, *both = worlds(rng, 1)
    methods = rounds_of(both, np.linspace(-3, 3, 40), reg=0.5, weights=weights)
    targets = [np.zeros(methods[0].down)]
    for order in ({Order.PLAIN: 1.0}, {Order.LENGTH: 1.0, Order.DAMPING: 0.1, Order.ACCEPTED: 1.0}):
        logs = np.clip(constant + rng.normal(size=40), None, 1e12)
        targets.append(methods[0]._answer(logs, order).target)
    assert_alike(methods[0].centring, *(answers(method, weights, targets) for method in methods))


def test_single_records_do_not_tell_where_they_are():
    """One of them in the middle of the support."""
    both = [[np.array([some]) for some in world] for world in ([[0.0], [0.5], [-0.5]], [[0.3], [0.2], [-0.5]])]
    methods = rounds_of(both, np.array([-1.0, 1.0]), reg=0.05)
    last = float(methods[0].last_stage)
    targets = [np.zeros(methods[0].down)]
    for order in ({Order.ACCEPTED: 1.0, Order.STAGE: last}, {Order.PLAIN: 1.0, Order.STAGE: last}):
        targets.append(methods[0]._answer(np.array([0.0, 0.4]), order).target)
    assert_alike(methods[0].centring, *(answers(method, np.ones(3), targets) for method in methods))


def test_without_masks_the_sums_do_tell():
    """The first potential is 0, and the estimate there is a blurred image of the records."""
    rng = np.random.default_rng(3)
    weights, *both = worlds(rng, 1)
    support = np.linspace(-3, 3, 40)
    methods = [
        chosen_rounds(Problem.create(some, support, reg=1.0, weights=weights), len(weights)) for some in both
    ]  # fmt: skip
    one, other = (answers(method, weights, [np.zeros(method.down)]) for method in methods)
    assert apart(one, other) > 0.003


@given(seed=SEEDS)
@settings(max_examples=10)
def test_sums_on_a_free_support_do_not_tell_where_records_are(seed):
    """Whatever accuracy the root asks for, and wherever it puts the points. The mean squares are told, and with them
    how far apart the nodes are, but not which is where."""
    rng = np.random.default_rng(seed)
    weights, *both = worlds(rng, 2)
    free = bm.FreeSupport(4, reach=10.0)
    methods = [
        FreeSupportMethod(Problem.create(some, free, reg=0.3, weights=weights, seed=0), masked=True) for some in both
    ]
    method = methods[0]
    targets = []
    for _ in range(4):
        order = np.zeros(len(FreeOrder))
        order[FreeOrder.ACCURACY], order[FreeOrder.RESET] = 10 ** rng.uniform(-9, 0), float(rng.random() < 0.5)
        order[FreeOrder.CERTIFY], order[FreeOrder.GAP] = float(rng.random() < 0.5), float(rng.random() < 0.3)
        logs = rng.choice([1.0, 10.0]) * rng.normal(size=method.n)
        targets.append(
            np.concatenate([rng.normal(0, 1, method.n * method.d), logs - np.log(np.exp(logs).sum()), order])
        )
    one, other = (answers(found, weights, targets) for found in methods)
    # in any order, and whatever else was asked
    np.testing.assert_array_equal(answers(method, weights, targets[::-1])[::-1], one)
    # projections, potentials, the value and the bound; then what does not depend on the target
    answered, n, d = method.n * (method.d + 1) + 2, method.n, method.d
    np.testing.assert_array_equal(one[:, :answered], other[:, :answered])
    assert one[:, : n * d].any()
    for found in (one, other):
        assert (found[:, answered:] == found[0, answered:]).all()
    for means in (slice(answered, answered + d), slice(answered + 2 * d, answered + 3 * d)):
        np.testing.assert_allclose(one[:, means], other[:, means], rtol=0, atol=1e-11)


@given(seed=SEEDS)
@settings(max_examples=10)
def test_sums_of_gaussians_do_not_tell_where_their_means_are(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 5))
    weights, roots = rng.uniform(1, 5, count), rng.normal(size=(count, 2, 2))
    means, shifts = rng.normal(size=(2, count, 2))
    shifts -= weights @ shifts / weights.sum()
    methods = [
        Bures([bm.Gaussian(mean, cov=root @ root.T + 0.1 * np.eye(2)) for mean, root in zip(where, roots, strict=True)])
        for where in (means, means + shifts)
    ]
    covariances = [root @ root.T + 0.1 * np.eye(2) for root in rng.normal(size=(3, 2, 2))]
    targets = [np.concatenate([rng.normal(size=2), cov.ravel()]) for cov in covariances]
    one, other = (answers(method, weights, targets) for method in methods)
    assert apart(one, other) <= 1e-12


def test_a_server_that_lies_reads_the_same_in_both_worlds():
    """All the way: sites that mask, the server's own targets, the sum of their words."""
    rng = np.random.default_rng(7)
    sizes = [4, 9, 6]
    records = [np.round(rng.normal(mean, 0.4, (size, 1)), 2) for mean, size in zip((-1, 0.5, 1), sizes, strict=True)]
    # the first hospital is 0.9 to the right in the other world, and the second 0.4 to the left
    shifted = [np.round(some + shift, 2) for some, shift in zip(records, (0.9, -0.4, 0.0), strict=True)]
    options = StarOptions(support="40:-3:3", reg=0.2, sites=3, weights="size")
    known, targets, read = identities(3), None, []
    for world in (records, shifted):
        sites = [MaskedSite(options, some, identity) for some, identity in zip(world, known, strict=True)]
        method = sites[0].method
        targets = lies(method, np.random.default_rng(0), 6, 2.0) if targets is None else targets
        roll = sum(site.report(0)["words"] for site in sites)[weight_sums(options).roll].astype(float)
        for site in sites:
            site.report(1, roll)
        sums = contribution_sums(options, method)
        for number, target in enumerate(targets, start=2):
            words = sum(
                site.report(number, np.concatenate([target, roll, [float(sum(sizes))]]))["words"] for site in sites
            )
            total = sums.total(words, roll)
            assert total is not None
            read.append(total.average)
    # but for the random digits that doubles lack, and for the noise of what is sent in every round
    one, other = np.split(np.array(read), 2)
    fixed = one.shape[1] - method.centring.size
    assert apart(one[:, :fixed], other[:, :fixed]) <= 1e-15
    assert apart(one[:, fixed:], other[:, fixed:]) <= 1e-10


def test_targets_beyond_the_reach_of_a_free_support_are_not_answered():
    """By all nodes alike: what is cut would tell how far away the records of one are."""
    rng = np.random.default_rng(2)
    weights, records, _ = worlds(rng, 2)
    problem = Problem.create(records, bm.FreeSupport(4, reach=10.0), reg=0.3, weights=weights, seed=0)
    method = FreeSupportMethod(problem, masked=True)
    far = np.concatenate([np.full(method.n * method.d, 10.1), np.full(method.n, -np.log(4)), np.zeros(len(FreeOrder))])
    thin = np.concatenate([np.zeros(method.n * method.d), [0.0, 0.0, 0.0, -1e6], np.zeros(len(FreeOrder))])
    massless = np.concatenate([np.ones(method.n * method.d), np.full(method.n, -800.0), np.zeros(len(FreeOrder))])
    for target in (far, thin, massless):
        found = answers(method, weights, [target])[0]
        assert not found[: method.n * (method.d + 1) + 2].any()


def test_new_data_begin_from_a_solved_transport():
    """The potential of the old ones would tell where the new ones are from there."""
    measures = [bm.Gaussian(mean, 0.3) for mean in (-1, 0, 1, 2)]
    method = chosen_rounds(Problem.create(measures, np.linspace(-5, 5, 60), reg=0.01), 3, masked=True)
    state, rows, nobody = method.start(3), np.arange(3), np.zeros(3, dtype=bool)
    method.first(state)
    method.change(state, 1, 3)
    method.respond(state, rows, np.zeros((3, method.down)), nobody, nobody)
    fresh = method.start(3)
    fresh.measure[1] = 3
    method.first(fresh)
    np.testing.assert_array_equal(state.x[1], fresh.x[1])


@pytest.mark.parametrize("reg", [0.01, 0.05, 2.0])
def test_the_barycenter_is_found_from_solved_starts(reg):
    """Records outside of the support, a heavy node, any reg."""
    rng = np.random.default_rng(1)
    records = [np.append(rng.normal(0, 1, 9), far)[:, None] for far in (-9.0, 7.0, 6.0)]
    problem = Problem.create(records, np.linspace(-3, 3, 43), reg=reg * 36, weights=[50, 1, 1])
    method = chosen_rounds(problem, 3, masked=True)
    state, root, everybody = method.start(3), method.start(1), np.ones(3, dtype=bool)
    answer = method.begin(root, 0, np.zeros(method.down), 0.0, close=False)
    for _ in range(500):
        told = method.respond(state, np.arange(3), np.tile(answer.target, (3, 1)), everybody, everybody)
        average = np.concatenate([problem.weights @ part for part in told.parts])
        answer = method.order(root, 0, average, answer.target, 1.0, float(told.errors.sum()), lambda left: left <= 1e-7)
        if answer.finished:
            break
    p = np.exp(answer.target[:43])
    truth = bm.barycenter(records, np.linspace(-3, 3, 43), reg=reg * 36, weights=[50, 1, 1], tol=1e-10).weights
    assert answer.finished
    assert 0.5 * np.abs(p / p.sum() - truth).sum() <= 1e-6
