"""A neighbour that wants a hospital's records: passive and active, alone and with a colluder. Without masks it finds
most of them; with masks no more than by guessing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import nnls

import barymesh as bm
from barymesh.core import tree
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.host import Host
from barymesh.decentralized.masks.round import Round
from barymesh.decentralized.masks.streams import Masks, _stream
from barymesh.decentralized.transport import MemoryTransport
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
            parts = [n, n, 4, n, n * n, algorithm.method.centring.size]
            for other in self.colluders:
                # the masks of the victim and the colluder, which the liar can compute
                stream = _stream(self.masks._round_key(other, VICTIM, moment.digest), (1, 1, 1, *parts))
                words[masked.roll.stop :] -= stream if other > VICTIM else -stream
            sums = algorithm.method.restored(masked.parts.numbers(words[masked.roll.stop + 3 :]), target)
        reg = REG if self.masks is None else algorithm.method.regs[int(target[n + Order.STAGE])]
        self.seen[row[tree.STAMP]] = (sums[n : 2 * n].copy(), sums[:n].copy(), reg)
        # what the root and its colluders have by subtraction: the average over all others, who weigh the same
        honest = [node for node in range(SIZE) if node not in self.colluders]
        own = self.host.state.own
        if (self.host.state.stamp[honest] == row[tree.STAMP]).all():
            x = algorithm.method.duals(own) / reg
            self.sums[row[tree.STAMP]] = (x[honest].mean(axis=0), own.h[honest].mean(axis=0), reg)

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
