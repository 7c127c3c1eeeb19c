"""A neighbour that wants a hospital's records: passive and active, alone and with a colluder. Without masks it finds
most of them; with masks no more than by guessing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.signal import find_peaks

import barymesh as bm
from barymesh.core import tree
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.host import Host
from barymesh.decentralized.masks.round import Round
from barymesh.decentralized.masks.streams import Masks, _stream
from barymesh.decentralized.transport import MemoryTransport
from barymesh.methods.chosen_rounds import chosen_rounds
from barymesh.methods.orders import Order
from barymesh.network import as_network
from barymesh.problem import Problem

POINTS, REG = np.linspace(-3, 3, 60), 0.05
CANDIDATES = np.linspace(-3, 3, 1201)
RECORDS = np.random.default_rng(5).uniform(-1.5, 1.5, 20)
# of five hospitals on a star the hub is the liar, who is the root; the victim and the colluder are leaves
LIAR, VICTIM, COLLUDER, SIZE = 0, 1, 2, 5
ROUNDS, NEAR = 10, 0.01


class Attack:
    """What the liar reads in so many rounds: the victim's ``x`` and ``h``, and reg there. ``active``: it chooses the
    targets, which are ``within`` so much of the barycenter in total variation. ``colluders``: whose secret keys it
    has."""

    def __init__(self, masks, active, colluders, within=1.0):
        rng = np.random.default_rng(0)
        others = [bm.Empirical(rng.normal(rng.uniform(-1, 1), 0.5, (20, 1))) for _ in range(SIZE - 1)]
        problem = Problem.create([others[0], bm.Empirical(RECORDS[:, None]), *others[1:]], POINTS, reg=REG)
        graph = as_network("star", SIZE)
        self.masks = Masks.of_one_owner(SIZE, 0, "rounds") if masks else None
        self.colluders, self.rng = colluders, rng
        algorithm = build_algorithm("rounds", problem, Nodes.all_of(graph, problem.weights), masks=self.masks)
        self.within = within
        if active:
            algorithm.rounds.order = self.choose
            self.barycenter = bm.barycenter(problem.measures, POINTS, reg=REG, tol=1e-8).weights
        self.host = Host(algorithm, MemoryTransport(graph, algorithm.width, algorithm.private), problem)
        self.first = graph.offsets[LIAR] + int(np.flatnonzero(graph.neighbours_of(LIAR) == VICTIM)[0])
        self.seen, self.sums = {}, {}
        for _ in range(200):
            self.host.act(self.host.batch(0))
            self.look()
            if len(self.seen) == ROUNDS:
                break

    def choose(self, state, row, average, target, weight, error, enough):
        """A target that moves the victim to another potential, by the plain step."""
        centre, width = self.rng.uniform(-2, 2), self.rng.uniform(0.3, 1.5)
        method = self.host.algorithm.rounds
        order = {Order.ACCEPTED: 1.0, Order.PLAIN: 1.0, Order.DAMPING: 0.1, Order.STAGE: float(method.last_stage)}
        chosen = np.exp(-0.5 * ((POINTS - centre) / width) ** 2)
        mixed = (1.0 - self.within) * self.barycenter + self.within * chosen / chosen.sum()
        return replace(method._answer(np.log(mixed), order), moved=1.0)

    def look(self):
        transport, algorithm = self.host.transport, self.host.algorithm
        row = transport.rows[transport.slots[self.first], : transport.width]
        if row[tree.STAMP] < 0 or row[tree.OLDEST] < row[tree.STAMP] or row[tree.PARENT] != LIAR:
            return
        n, sums = len(POINTS), row[algorithm.private]
        if self.masks is not None:
            masked, words = algorithm.masked, sums.view(np.uint64).copy()
            target, roll = np.split(row[algorithm.private.stop :], [algorithm.method.down])
            moment = Round(row[tree.EPOCH], row[tree.ROOT], row[tree.STAMP], target, roll)
            parts = [n, 2, n * n]
            for other in self.colluders:
                # the masks of the victim and the colluder, which the liar can compute
                stream = _stream(self.masks._round_key(other, VICTIM, moment.digest), (1, 1, 1, *parts))
                words[masked.roll.stop :] -= stream if other > VICTIM else -stream
            sums = masked.parts.numbers(words[masked.roll.stop + 3 :])
            # the estimates of nodes that have solved their transports are the target
            logs = target[:n] - np.log(np.exp(target[:n] - target[:n].max()).sum()) - target[:n].max()
            reg = algorithm.method.regs[int(target[n + Order.STAGE])]
            self.seen[row[tree.STAMP]] = (sums[:n].copy(), logs, reg)
        else:
            reg = REG
            self.seen[row[tree.STAMP]] = (sums[n : 2 * n].copy(), sums[:n].copy(), reg)
        # what the root and its colluders have by subtraction: the average over all others, who weigh the same
        honest = [node for node in range(SIZE) if node not in self.colluders]
        own = self.host.state.own
        if (self.host.state.stamp[honest] == row[tree.STAMP]).all():
            mean = own.h[honest].mean(axis=0) if self.masks is None else logs
            self.sums[row[tree.STAMP]] = (own.x[honest].mean(axis=0), mean, reg)

    def guesses(self, read):
        """Where the liar sees records: the masses on candidates that explain all it has ``read`` best. Where it sees
        too few, it guesses."""
        columns, shares = [], []
        for x, h, reg in read.values():
            with np.errstate(over="ignore"):
                shares.append(np.clip(np.nan_to_num(np.exp(h)), 0.0, 1.0))
            exponents = np.clip(x, -1e6, 1e6)[:, None] - np.square(POINTS[:, None] - CANDIDATES) / reg
            kernel = np.exp(exponents - exponents.max(axis=0))
            columns.append(kernel / kernel.sum(axis=0))
        masses, _ = nnls(np.vstack(columns), np.concatenate(shares), maxiter=50_000)
        count = 2 * len(RECORDS)
        best = np.argsort(masses)[-count:]
        seen = CANDIDATES[best[masses[best] > 0]]
        return np.concatenate([seen, self.rng.uniform(-1.5, 1.5, count - seen.size)])

    def victim_guesses(self):
        """Where the liar sees records in what the victim has reported."""
        return self.guesses(self.seen)


def found(guesses):
    return int((np.abs(RECORDS[:, None] - guesses).min(axis=1) <= NEAR).sum())


def chance():
    """The most that guesses in the range of the records find in a thousand trials."""
    rng = np.random.default_rng(1)
    return max(found(rng.uniform(-1.5, 1.5, 2 * len(RECORDS))) for _ in range(1000))


@pytest.mark.parametrize("active", [False, True], ids=["passive", "active"])
@pytest.mark.parametrize("colluders", [(LIAR,), (LIAR, COLLUDER)], ids=["one liar", "two colluders"])
def test_records_are_found_without_masks_and_not_with_them(active, colluders):
    open_attack, masked = Attack(False, active, colluders), Attack(True, active, colluders)
    assert len(open_attack.seen) >= 5
    assert len(masked.seen) >= 5
    most = chance()
    assert found(open_attack.guesses(open_attack.seen)) > most
    assert found(masked.guesses(masked.seen)) <= most
    assert len(masked.sums) >= 5
    assert found(masked.guesses(masked.sums)) <= most


@pytest.mark.parametrize("within", [0.1, 0.001])
def test_a_bound_on_how_far_targets_move_would_not_replace_masks(within):
    """Answers are known to so many digits that small moves tell as much as large ones."""
    liar = (LIAR,)
    assert found(Attack(False, True, liar, within).victim_guesses()) > chance()
    assert found(Attack(True, True, liar, within).victim_guesses()) <= chance()


def test_if_all_others_collude_nothing_hides_a_node():
    """So the attack itself is right."""
    attack = Attack(True, True, [node for node in range(SIZE) if node != VICTIM])
    assert found(attack.guesses(attack.seen)) > chance()


# a root that asks on purpose, and sees sums over all who do not collude


def honest_method(masked, sizes, seed=0):
    """The rounds of hospitals with so many records each, and their records."""
    rng = np.random.default_rng(seed)
    records = [rng.uniform(-1.5, 1.5, size) for size in sizes]
    problem = Problem.create([bm.Empirical(some[:, None]) for some in records], POINTS, reg=REG)
    return chosen_rounds(problem, len(sizes), masked=masked), records


def asked(method, targets):
    """``(k, up)``: what the root reads in so many rounds."""
    count = len(method.problem.measures)
    state, rows, yes = method.start(count), np.arange(count), np.ones(count, dtype=bool)
    method.first(state)
    read = [method.respond(state, rows, np.tile(one, (count, 1)), yes, yes) for one in targets]
    return np.array([np.concatenate([part.mean(axis=0) for part in one.parts]) for one in read])


def between_two_points(method, logits, **order):
    """Targets with nearly all mass at the two ends of the support, in these proportions."""
    for logit in logits:
        t = np.full(len(POINTS), -60.0)
        t[0], t[-1] = 0.0, logit
        names = {Order.STAGE: float(method.last_stage), **{Order[name]: value for name, value in order.items()}}
        yield method._answer(t, names).target


def jumps(places, heights):
    """The places where a function rises or falls faster than on either side."""
    slopes = np.abs(np.diff(heights))
    return places[find_peaks(slopes, prominence=1e-4 * slopes.max())[0]]


def test_sums_of_estimates_show_where_all_records_are_and_those_of_solved_transports_do_not():
    """Potentials that are a step from 0 to two points far apart make a node's estimate the share of its records on one
    side of a place. The sum of the logarithms jumps at every record of every node. That is why masked rounds have none
    of it: of solved transports the sum is the average of quantiles, which all nodes learn from the barycenter."""
    sizes, places, width = (20, 20, 20, 20), np.linspace(-1.6, 0.0, 1600), POINTS[-1] - POINTS[0]
    method, records = honest_method(False, sizes)
    sums = []
    for place in places:
        # a record at this place costs the same to both ends: the squared distances from them differ by 2 width y
        x = np.full((4, len(POINTS)), -1e4)
        x[:, 0], x[:, -1] = 2.0 * width * place / REG, 0.0
        sums.append(method.problem.oracle.evaluate(x)[1][:, 0].mean())
    seen, there = jumps(places, np.array(sums)), np.concatenate(records)
    there = there[there < 0.0]
    assert seen.size <= there.size
    assert (np.abs(there[:, None] - seen).min(axis=1) <= NEAR).mean() > 0.7

    solved, records = honest_method(True, sizes)
    logits = np.linspace(-8, 8, 300)
    read = asked(solved, between_two_points(solved, logits))
    assert read.any(axis=1).all()
    # the average of the quantiles, as the potentials have it
    quantiles = -REG * (read[:, len(POINTS) - 1] - read[:, 0] - logits) / (2.0 * width)
    levels = 1.0 / (1.0 + np.exp(-logits))
    ordered = np.mean([np.quantile(some, 1.0 - levels, method="inverted_cdf") for some in records], axis=0)
    assert np.median(np.abs(quantiles - ordered)) <= 0.02
    rng, victim = np.random.default_rng(1), records[0]

    def hits(guesses):
        return int((np.abs(victim[:, None] - guesses).min(axis=1) <= NEAR).sum())

    middles = np.array([quantiles[np.abs(levels - (k + 0.5) / 20).argmin()] for k in range(20)])
    assert hits(middles) <= max(hits(rng.uniform(-1.5, 1.5, 20)) for _ in range(1000))


def test_the_damping_that_a_root_chooses_changes_nothing():
    """Matrices at dampings of its choice showed the eigenvalues of single nodes."""
    method, _ = honest_method(True, (20, 20, 20))
    one, other = (asked(method, between_two_points(method, [0.3], DAMPING=damping))[0] for damping in (1e-6, 5.0))
    np.testing.assert_array_equal(one, other)
