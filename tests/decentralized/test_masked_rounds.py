"""Rounds with masks: the same barycenter, through faults and changes, and reports that show nothing."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import barymesh as bm
from barymesh.core import kernels, tree
from barymesh.decentralized.algorithm import Batch, Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.host import Host
from barymesh.decentralized.inbox import NO_MESSAGE
from barymesh.decentralized.masks.streams import Masks
from barymesh.decentralized.masks.sums import SCALARS, MaskedSums
from barymesh.decentralized.transport import MemoryTransport
from barymesh.errors import AccuracyWarning, MeasureError, OptionError, SupportError
from barymesh.methods.orders import Order
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.scenario import Constant, Crash, Leave, Loss, NewData

POINTS = np.linspace(-5, 5, 40)
MEASURES = [bm.Gaussian(mean, 0.3 + 0.1 * k) for k, mean in enumerate((-3, -1, 0, 2, 3))]


def run(measures=MEASURES, support=POINTS, **options):
    given = {
        "reg": 0.2, "network": "cycle", "method": "rounds", "duration": 400.0, "masks": True,
        "delays": Constant(0.2), "progress": False, **options,
    }  # fmt: skip
    return bm.barycenter(measures, support, **given)


def distance(one, other):
    return 0.5 * np.abs(one.weights - other.weights).sum()


@given(
    seed=st.integers(0, 10**6), nodes=st.integers(3, 9), points=st.sampled_from([25, 140]),
    reg=st.sampled_from([0.01, 0.1, 3.0]), network=st.sampled_from(["path", "star", "complete"]),
)  # fmt: skip
@settings(max_examples=5)
@pytest.mark.filterwarnings("ignore::barymesh.errors.AccuracyWarning")
def test_the_barycenter_is_that_without_masks(seed, nodes, points, reg, network):
    """With and without matrices, with unequal weights, at every size of reg."""
    rng = np.random.default_rng(seed)
    measures = [
        bm.Gaussian(mean, scale)
        for mean, scale in zip(rng.uniform(-3, 3, nodes), rng.uniform(0.3, 1, nodes), strict=True)
    ]
    common = {"reg": reg, "network": network, "weights": rng.dirichlet(np.full(nodes, 0.5)) + 1e-3, "tol": 1e-11}
    support = np.linspace(-5, 5, points)
    masked, plain = run(measures, support, **common), run(measures, support, masks=False, **common)
    assert masked.status is plain.status is bm.Status.CONVERGED
    assert distance(masked, plain) <= 1e-9
    assert (masked.node_gaps >= 0).all()
    assert (masked.node_gaps <= plain.node_gaps + 1e-9).all()


def test_a_start_with_masks_is_in_the_potentials_of_the_measures_themselves():
    """And so is what is found, though nodes work with their measures elsewhere."""
    plain = run(masks=False, tol=1e-10)
    masked = run(start=plain, tol=1e-10)
    assert masked.status is bm.Status.CONVERGED
    assert masked.activations < 0.7 * run(tol=1e-10).activations
    assert distance(masked, plain) <= 1e-9
    assert masked.feasibility <= 1e-6
    assert masked.value == pytest.approx(plain.value, abs=1e-7)


@pytest.mark.parametrize("weights", ["uniform", "learned"])
def test_free_supports_have_masks_too(weights):
    rng = np.random.default_rng(0)
    clouds = [rng.normal(shift, 0.5, (15, 2)) for shift in (-1, 0, 1)]
    support = bm.FreeSupport(3, weights=weights, reach=5.0)
    common = {"measures": clouds, "support": support, "reg": 0.05, "network": "path", "tol": 1e-10}
    masked, plain = run(**common), run(masks=False, **common)
    assert masked.status is plain.status is bm.Status.STATIONARY
    np.testing.assert_allclose(masked.support.points, plain.support.points, atol=1e-9)
    assert distance(masked, plain) <= 1e-9
    assert (masked.node_gaps >= 0).all()


def test_the_reach_of_a_free_support_is_checked():
    clouds = [np.full((3, 1), 7.0)] * 3
    with pytest.raises(OptionError, match="a reach"):
        run(clouds, bm.FreeSupport(2), network="path")
    with pytest.raises(SupportError, match="coordinate of 7, beyond the reach 5"):
        run(clouds, bm.FreeSupport(2, reach=5.0), network="path")


def test_records_far_outside_of_the_support_are_refused():
    """What follows from them would be cut, and the result be another barycenter."""
    measures = [*MEASURES[:4], bm.Empirical(np.full((3, 1), 100.0))]
    assert run(measures, masks=False).status is bm.Status.CONVERGED
    with pytest.raises(MeasureError, match="more than 16 times the largest"):
        run(measures)


def test_gaussian_barycenters_have_masks_too():
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(4, 2, 2))
    gaussians = [bm.Gaussian(rng.normal(size=2), cov=root @ root.T + 0.1 * np.eye(2)) for root in roots]
    found = bm.gaussian_barycenter(gaussians, network="path", masks=True, reach=10.0)
    right = bm.gaussian_barycenter(gaussians)
    np.testing.assert_allclose(found.mean, right.mean, atol=1e-9)
    np.testing.assert_allclose(found.cov, right.cov, atol=1e-8)
    with pytest.raises(OptionError, match="reach"):
        bm.gaussian_barycenter(gaussians, network="path", masks=True)
    with pytest.raises(MeasureError, match="beyond the reach"):
        bm.gaussian_barycenter(gaussians, network="path", masks=True, reach=0.5)


def test_debiased_barycenters_have_masks_too():
    # with masks another method finds it, and the objective is flat: only a small tolerance tells where they meet
    common = {"debias": True, "tol": 1e-11}
    masked, plain = run(**common), run(masks=False, **common)
    assert masked.status is plain.status is bm.Status.CONVERGED
    assert distance(masked, plain) <= 1e-9


def host(masks=True, network="path", tol=0.0):
    problem = Problem.create(MEASURES, POINTS, reg=0.2)
    graph = as_network(network, len(MEASURES), 0)
    algorithm = build_algorithm(
        "rounds", problem, Nodes.all_of(graph, problem.weights), tol=tol,
        masks=Masks.of_one_owner(graph.size, 0, "rounds") if masks else None,
    )  # fmt: skip
    return Host(algorithm, MemoryTransport(graph, algorithm.width, algorithm.private), problem)


def test_a_report_is_random_and_shows_no_weight_and_no_error():
    """All that the parent of a leaf gets in all rounds: the same bits are set as often as not."""
    one, plain = host(), host(masks=False)
    masked, words, reports = one.algorithm.masked, [], []
    for _ in range(60):
        for any_host in (one, plain):
            any_host.act(any_host.batch(0))
        leaf = one.transport.rows[one.transport.slots[one.nodes.network.neighbours == 0]]
        header = leaf[:, : tree.HEADER]
        assert (header[:, tree.ERROR] == 0).all()
        assert (header[:, tree.WEIGHT] % 1 == 0).all()
        if one.state.stamp[0] >= 0:
            words.append(one.state.report[0].copy())
            reports.append(plain.state.own.h[0].copy())
    words = np.unique(np.array(words), axis=0)[:, masked.roll.stop :]
    assert len(words) >= 4
    values = (words / 2.0**64).ravel()
    assert stats.kstest(values, "uniform").pvalue > 1e-6
    # also its count, its weight and its error, which as they are would be the same in all rounds, or small
    assert (np.ptp(words[:, : len(SCALARS)] / 2.0**64, axis=0) > 0.25).all()
    # while h is within a small part of the range of numbers
    assert np.ptp(reports) < 1e3


def test_a_node_contributes_once_to_a_round():
    """Through crashes without memory, losses and new data: whatever a round is, its masks are used once."""
    seen, rounds, original = {}, set(), MaskedSums.report

    def noted(self, masks, node, moment, *contribution):
        words = original(self, masks, node, moment, *contribution)
        key = (node, moment.digest)
        assert key not in seen
        seen[key] = words
        assert (node, moment.epoch, moment.root, moment.stamp) not in rounds
        rounds.add((node, moment.epoch, moment.root, moment.stamp))
        return words

    events = (NewData(node=1, at=6.3, measure=bm.Gaussian(1.0, 0.4)), NewData(node=0, at=14.1, measure=MEASURES[2]))
    faults = (Loss(0.2), Crash(3, 5.0, 7.0, memory=False), Crash(2, 9.0, 12.0, memory=True))
    with mock.patch.object(MaskedSums, "report", noted):
        result = run(events=events, faults=faults)
    assert result.status is bm.Status.CONVERGED
    assert len(rounds) > 30
    changed = [MEASURES[2], bm.Gaussian(1.0, 0.4), *MEASURES[2:]]
    assert distance(result, bm.barycenter(changed, POINTS, reg=0.2, tol=1e-10)) <= 1e-5


@pytest.mark.parametrize("restarted", [False, True])
def test_old_rounds_that_are_played_again_to_an_old_memory(restarted):
    """As with a disk restored from a backup, and neighbours that lie about it. A new process draws other numbers, and
    so uses no mask again; the memory alone would not help."""
    one, seen, original = host(network="complete"), [], MaskedSums.report

    def noted(self, masks, node, moment, *contribution):
        seen.append((node, moment.digest))
        return original(self, masks, node, moment, *contribution)

    with mock.patch.object(MaskedSums, "report", noted):
        for _ in range(3):
            one.act(one.batch(0))
        memory, counts = {name: values.copy() for name, values in one.state.saved().items()}, one.counts.copy()
        rows, slots = one.transport.rows.copy(), one.transport.slots.copy()
        for _ in range(6):
            one.act(one.batch(0))
        before = set(seen)
        assert len(before) == len(seen) > 5
        one.state.restore(memory)
        one.counts[:] = counts
        one.transport.rows[:], one.transport.slots[:] = rows, slots
        if restarted:
            secret = b"of another process"
            one.algorithm.masked_reports.masks = Masks.of_one_owner(5, 0, "rounds", secret=secret)
        for _ in range(6):
            one.act(one.batch(0))
    again = before & set(seen[len(before) :])
    assert (not again) == restarted


def test_who_is_away_is_left_out_of_the_masks():
    result = run(events=[Leave(4, at=4.0)])
    assert result.status is bm.Status.CONVERGED
    assert distance(result, bm.barycenter(MEASURES[:4], POINTS, reg=0.2, tol=1e-10)) <= 1e-5


def test_a_round_without_a_member_is_void():
    """The sum over four of five members is no average, and the root makes no target of it."""
    one = host(network="star")
    for _ in range(40):
        one.act(one.batch(0))
    row = int(np.flatnonzero(one.state.parent == one.nodes.ids)[0])
    roll = one.state.target[row, one.algorithm.method.down :]
    members = np.flatnonzero(roll)
    assert members.size == 5
    total = sum(one.state.report[node] for node in members)
    assert one.algorithm.masked.total(total, roll) is not None
    assert one.algorithm.masked.total(total - one.state.report[members[1]], roll) is None


def test_a_node_that_the_roll_lacks_leads_to_another_roll():
    """As after a link that was down for long: nobody says that all are in the sum before they are."""
    one = host(network="star", tol=1e-6)
    for _ in range(12):
        one.act(one.batch(0))
    state, down = one.state, one.algorithm.method.down
    assert (state.stamp >= 0).all()
    state.target[:, down + 3] = 0.0
    assert "does not have this node" in one.algorithm.why_not(state, 3)
    for _ in range(200):
        one.act(one.batch(0))
    assert one.algorithm.members(state, 0) == [0, 1, 2, 3, 4]
    assert one.stopped.all()
    right = bm.barycenter(MEASURES, POINTS, reg=0.2, tol=1e-10).weights
    assert np.abs(one.view(0).estimates - right).sum(axis=1).max() <= 1e-5


def false_root(one, lie):
    """The root of the host changes its target by ``lie(target, roll)`` before it is sent."""
    publish = one.algorithm._publish

    def changed(state, row, beat, message, target, whole):
        down = one.algorithm.method.down
        lie(target, state.target[row, down:])
        publish(state, row, beat, message, target, whole)

    one.algorithm._publish = changed


def test_a_root_that_leaves_a_node_out_gets_no_sum_while_a_neighbour_hears_that_node():
    """On a cycle node 3 has honest neighbours, who do not contribute to a roll without it, and say so."""
    one, seen = host(network="cycle"), []
    row = int(np.flatnonzero(one.algorithm.keys == one.algorithm.keys.min())[0])
    victim = (row + 2) % 5

    def lie(target, roll):
        roll[victim] = 0.0

    false_root(one, lie)
    total = one.algorithm.masked_reports.sums.total
    one.algorithm.masked_reports.sums.total = lambda words, roll: seen.append(total(words, roll)) or seen[-1]
    for _ in range(60):
        one.act(one.batch(0))
    assert (one.state.stamp[[(victim - 1) % 5, (victim + 1) % 5]] >= 0).all()
    for neighbour in ((victim - 1) % 5, (victim + 1) % 5):
        if neighbour != row:
            assert f"lacks node {victim}" in one.algorithm.why_not(one.state, neighbour)
            assert not one.state.report[neighbour].any()
    assert all(found is None for found in seen)


class Liar:
    """The root of a network in memory, that sends each neighbour what it likes."""

    def __init__(self, network):
        self.host = host(network=network)
        self.graph, self.algorithm, self.state = self.host.nodes.network, self.host.algorithm, self.host.state
        self.row = int(np.argmin(self.algorithm.keys))
        self.others = [node for node in range(self.graph.size) if node != self.row]
        for _ in range(12):
            self.act(range(self.graph.size))
        assert (self.state.stamp >= 0).all()

    def act(self, rows):
        rows = np.array(rows)
        self.host.act(Batch(rows, self.host.counts[rows], rows))

    def link(self, sender, receiver):
        return self.graph.offsets[receiver] + int(np.flatnonzero(self.graph.neighbours_of(receiver) == sender)[0])

    def message(self, sender, receiver):
        """The last one over a link."""
        return self.host.transport.rows[1 + self.link(sender, receiver), : self.algorithm.width]

    def send(self, receivers, target=None, **fields):
        for receiver in receivers:
            message = self.message(self.row, receiver)
            message[[getattr(tree, name) for name in fields]] = list(fields.values())
            if target is not None:
                message[self.algorithm.private.stop :] = target

    def begin(self, receivers, epoch):
        """A new epoch, in which it is the root; the numbers of those who have heard of it."""
        self.send(receivers, EPOCH=epoch, STAMP=-1.0, OLDEST=-1.0, BEAT=self.host.counts.max())
        self.act(receivers)

    def target(self, members):
        """That of the first of the members, with a roll of all of them."""
        down, roll = self.algorithm.method.down, np.zeros(self.graph.size)
        for node in members:
            roll[node] = self.words(node)[node] if node != self.row else 1.0
        return np.concatenate([self.state.target[members[0], :down], roll])

    def words(self, sender):
        return self.message(sender, self.row)[self.algorithm.private].view(np.uint64)


@pytest.mark.parametrize("waits", [0, 150])
@pytest.mark.parametrize("silent", [False, True])
def test_a_root_that_keeps_a_node_out_of_the_tree_gets_no_sum_without_it(waits, silent):
    """It tells the others of a new epoch first, and that node too late; or has it use up the epochs that it may follow.
    They contribute without it only after they have heard nothing of it for long."""
    liar = Liar("complete")
    *members, victim = liar.others
    liar.begin(members, liar.state.epoch[victim] + 1.0)
    for beat in range(waits):
        liar.state.allowance[victim] = 0.0
        liar.send(members, BEAT=1000.0 + beat)
        liar.act(members if silent else liar.others)
    liar.send(members, liar.target([*members, liar.row]), STAMP=5.0)
    liar.act(members)
    for node in members:
        found = liar.algorithm.why_not(liar.state, node)
        assert (found == "") == (silent and waits > 100)
        assert silent or f"lacks node {victim}" in found


def test_a_node_that_has_just_started_waits_until_it_has_heard_of_its_neighbours():
    """Its memory has no messages, and a root may be faster than the others."""
    liar = Liar("complete")
    *members, victim = liar.others
    for node in members:
        liar.host.transport.slots[liar.link(victim, node)] = NO_MESSAGE
    liar.begin(members, liar.state.epoch[victim] + 1.0)
    liar.send(members, liar.target([*members, liar.row]), STAMP=5.0)
    liar.act(members)
    assert all(f"lacks node {victim}" in liar.algorithm.why_not(liar.state, node) for node in members)


def test_no_mask_is_used_again_in_the_last_epoch():
    """No epoch follows it, so the tree begins again in it, and a root may send its first stamps once more."""
    liar, victim = Liar("star"), 1
    state, words = liar.state, []
    liar.begin([victim], kernels.LAST_EPOCH)
    first = liar.target([victim, *(node for node in range(5) if node != victim)])
    second = first.copy()
    second[liar.algorithm.method.points + Order.PLAIN] = 1.0
    for stamp, target in ((5.0, first), (6.0, second)):
        liar.send([victim], target, STAMP=stamp, BEAT=1000.0 + stamp)
        liar.act([victim])
        assert liar.algorithm.why_not(state, victim) == ""
        words.append(liar.words(victim).copy())
    # the same beat as before: the root is silent
    liar.send([victim], first, STAMP=5.0)
    while state.stamp[victim] != 5.0:
        liar.act([victim])
    assert "the number that it has drawn" in liar.algorithm.why_not(state, victim)
    assert not liar.words(victim)[5:].any()
    # the root learns the new number, and with that come new masks
    liar.send([victim], liar.target([victim, *(node for node in range(5) if node != victim)]), STAMP=7.0)
    liar.act([victim])
    assert liar.algorithm.why_not(state, victim) == ""
    assert not (liar.words(victim)[5:] == words[0][5:]).any()


def test_members_that_got_different_targets_add_up_to_nothing():
    """A node passes on another target than it got. The sum cannot be read, and the root notices."""
    one = host(network="path")
    row = int(np.flatnonzero(one.algorithm.keys == one.algorithm.keys.min())[0])
    between = row + 1
    for _ in range(200):
        one.act(one.batch(0))
        if one.state.void[row]:
            break
        if one.state.stamp[between] >= 0:
            # in what the node beyond it is sent
            slot = one.transport.slots[one.nodes.network.offsets[between + 1]]
            one.transport.rows[slot, one.algorithm.private.stop] += 1e-3
    assert one.state.void[row] > 0


def test_a_node_answers_a_bounded_number_of_targets():
    """However many a root sends: so many at once, and then at a bounded rate."""
    one = host(network="star")
    one.state.answers[:] = 5.0
    contributed = 0
    last = np.full((5, 3), -np.inf)
    for _ in range(150):
        one.act(one.batch(0))
        contributed += int((one.state.reported[1] != last[1]).any())
        last = one.state.reported.copy()
    assert 5 <= contributed <= 7
    assert "contributed to" in one.algorithm.why_not(one.state, 1)


def test_too_few_members_contribute_nothing():
    """Three of five leave: nobody reports for the two that are left."""
    seen, original = [], MaskedSums.report

    def noted(self, masks, node, moment, *contribution):
        seen.append(np.count_nonzero(moment.roll))
        return original(self, masks, node, moment, *contribution)

    with (
        mock.patch.object(MaskedSums, "report", noted),
        pytest.warns(AccuracyWarning, match="Node 0 does not contribute to the masked sums: .* it takes 3"),
    ):
        result = run(network="complete", events=[Leave(node, at=1.5 + node) for node in (2, 3, 4)], duration=60.0)
    assert result.status is bm.Status.OUT_OF_TIME
    assert min(seen) >= 3


def test_what_masks_are_not_for():
    with pytest.raises(OptionError, match="fewer than 3 members"):
        run(MEASURES[:2], network="path")
    with pytest.raises(OptionError, match="masked in rounds"):
        run(method="sinkhorn")
    with pytest.raises(OptionError, match="reg is too small"):
        run(reg=1e-9)
    # where nodes are must be hidden, and noise may not show in the barycenter
    with pytest.raises(OptionError, match=r"reg \(0\.0003\) is too small"):
        run(reg=3e-4)


@pytest.mark.parametrize("points", [2, 3, 9])
def test_the_noise_does_not_show_on_coarse_supports(points):
    """A reg near the smallest for which there are masks, and records between two points of the support."""
    records = [np.array([[place]]) for place in (0.125, 0.25, 0.375)]
    common = {"reg": 2e-5, "network": "complete", "tol": 1e-11}
    plain = run(records, np.linspace(0, 1, points), masks=False, **common)
    for seed in range(3):
        masked = run(records, np.linspace(0, 1, points), seed=seed, **common)
        assert masked.status is plain.status is bm.Status.CONVERGED
        assert distance(masked, plain) <= 1e-9
