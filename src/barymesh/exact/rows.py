"""Nodes in this process: a row of every array for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.exact.certificate import NodeBounds, node_bounds
from barymesh.exact.coarser import coarser_problem, extended
from barymesh.exact.nodes import Ahead, Evaluation, Floats, Indices, NodeGroup, RoundSums
from barymesh.gradients.logarithmic import ExactLogGradients
from barymesh.methods.base import Contribution, RoundMethod
from barymesh.methods.chosen_rounds import chosen_rounds
from barymesh.methods.free_support import FreeSupportMethod
from barymesh.methods.rounds import Rounds
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.base import Oracle
from barymesh.oracle.bounds import ProductCosts
from barymesh.oracle.groups import build_oracle
from barymesh.problem import Problem
from barymesh.support.points import Support

# rows done together where a copy of all would take much memory
BATCH = 1024


class Rows(NodeGroup):
    """The nodes of an ``oracle`` with these ``weights (m,)``. ``problem``: theirs, which levels, rounds and
    certificates need; ``costs``: for a certificate without one. ``all_nodes``: how many there are with those in other
    places."""

    # the history: steps, changes of the residual, and the plain step in place of the last one
    moves: NDArray[Any]
    changes: NDArray[Any]
    fallback: Floats

    def __init__(
        self, oracle: Oracle, weights: Floats, problem: Problem | None = None, costs: ProductCosts | None = None,
        all_nodes: int | None = None,
    ) -> None:  # fmt: skip
        self.weights, self.count, self._problem, self._costs = weights, oracle.count, problem, costs
        self.all_nodes = all_nodes or oracle.count
        self.finer: list[Problem] = []
        self.method: RoundMethod[Any] | None = None
        self.saved, self.saved_reg = np.empty((0, 0)), oracle.reg
        # where large arrays are made
        self.allocate: Callable[..., NDArray[Any]] = np.empty
        self._evaluate_by(oracle, np.zeros((oracle.count, oracle.size)))

    @classmethod
    def of(cls, problem: Problem, weights: Floats | None = None, all_nodes: int | None = None) -> Rows:
        """The nodes of a problem."""
        # where points move, this oracle is not used: the one that costs nothing to make
        still = AtomOracle(problem.atoms, problem.support, problem.cost, problem.reg) if problem.free else None
        own = problem.weights if weights is None else weights
        return cls(still or problem.oracle, own, problem, all_nodes=all_nodes)

    def _evaluate_by(self, oracle: Oracle, x: Floats) -> None:
        """Pass to another oracle, with the potentials ``x``."""
        self._oracle: Oracle | None = oracle
        self.precise = self._problem is not None and self._problem.__dict__.get("float64_oracle") is oracle
        self.x = x
        self.size, self.reg = oracle.size, oracle.reg
        # log p_i, which become the residuals mean - log p_i
        self.log_p, self.mean = np.empty_like(x), np.zeros(0)
        self.end_history()

    @property
    def oracle(self) -> Oracle:
        """That of the nodes, on the present points."""
        if self._oracle is None:
            self._oracle = self.problem.float64_oracle if self.precise else self.problem.oracle
        return self._oracle

    def forget(self) -> None:
        """Forget what can be made again, except on coarser points, where it is smaller, and takes longer to make."""
        problems = self.finer if self.finer else [self.problem]
        if not self.finer and self.reg == self.problem.reg:
            self._oracle = None
        for problem in problems[:1]:
            problem.forget()

    @property
    def problem(self) -> Problem:
        """The problem of the nodes, on the present points."""
        assert self._problem is not None, "nodes known by their oracle only have no other level"
        return self._problem

    def _sum(self, rows: Floats) -> Floats:
        found = np.empty(rows.shape[1])
        kernels.weighted_mean(rows, self.weights, found)
        return found

    # the potentials

    def total(self) -> Floats:
        return self._sum(self.x)

    def shift(self, by: Floats) -> None:
        self.x += by

    def reset(self) -> None:
        self.x[:] = 0.0

    def save(self) -> None:
        if self.saved.shape != self.x.shape:
            self.saved = np.empty_like(self.x)
        self.saved[:], self.saved_reg = self.x, self.reg

    def restore(self) -> None:
        np.multiply(self.saved, self.saved_reg / self.reg, out=self.x)

    def potentials(self) -> Floats:
        return self.x

    def set_potentials(self, x: Floats) -> None:
        self.x[:] = x

    # an iteration

    def evaluate(self) -> Evaluation:
        value, _ = self.oracle.evaluate(self.x, out=self.log_p)
        self.mean = np.zeros(0)
        return Evaluation(float((self.weights * value).sum()), self._sum(self.log_p), self._sum(self.x))

    def residual(self, mean: Floats, p: Floats, ahead: Ahead | None = None) -> float:
        errors = np.empty(self.count)
        kernels.residual(self.log_p, mean, p, errors)
        self.mean = mean
        return float((self.weights * errors).sum())

    def adjust(self, by: Floats) -> None:
        self.log_p += by

    # its acceleration

    def begin_history(self, depth: int, brief: bool) -> None:
        shape, kind = (depth, *self.x.shape), np.uint16 if brief else np.float32
        if self.moves.shape != shape or self.moves.dtype != kind:
            self.moves, self.changes = self.allocate(shape, kind), self.allocate(shape, kind)
            self.fallback = np.empty_like(self.x)

    def close_slot(self, slot: int, relaxation: float) -> None:
        kernels.close_slot(self.log_p, relaxation, self.changes[slot], self.moves[slot])

    def gram(self, count: int, p: Floats) -> Floats:
        parts = np.zeros((self.count, count, count + 1))
        kernels.gram(self.changes, count, self.log_p, self.weights, p, parts)
        return np.asarray(parts.sum(axis=0))

    def move(self, drift: Floats, coefficients: Floats, relaxation: float, slot: int) -> None:
        used, factors = coefficients.size, coefficients if coefficients.size else np.zeros(1)
        kernels.accelerate(
            self.x, self.log_p, drift, self.fallback, self.moves, self.changes, used, factors, relaxation, slot
        )

    def undo(self, slot: int) -> None:
        self.x[:] = self.fallback
        self.moves[slot] = self.changes[slot]

    def end_history(self) -> None:
        self.moves = np.empty((0, *self.x.shape), np.float32)
        self.changes, self.fallback = self.moves, np.empty((0, 0))

    # levels

    def coarsen(self, support: Support) -> None:
        self.finer.append(self.problem)
        self._problem = coarser_problem(self.problem, support)
        self._evaluate_by(self.problem.oracle, np.zeros((self.count, support.size)))

    def refine(self) -> Floats:
        finer = self.finer.pop()
        sums = extended(self.problem, self.x, finer.support)
        self._problem = finer
        mean = self._sum(sums)
        self._evaluate_by(finer.oracle, np.negative(sums, out=sums))
        return mean

    def use(self, reg: float) -> None:
        problem = self.problem
        oracle = (
            problem.float64_oracle
            if reg == problem.reg
            else build_oracle(problem.atoms, problem.support, problem.cost, reg)
        )
        if oracle is not self.oracle or reg != self.reg:
            self._evaluate_by(oracle, self.x * (self.reg / reg))

    # rounds

    def begin_rounds(self, chosen: bool) -> None:
        problem = self.problem
        if problem.free is not None:
            self.method = FreeSupportMethod(problem)
        elif chosen:
            self.method = chosen_rounds(problem, self.all_nodes)
            # other potentials are those of an earlier run, at the last reg
            self.method.initial = self.x if self.x.any() else None
        else:
            self.method = Rounds(problem, ExactLogGradients(problem), self.all_nodes, from_start=True, local_steps=1)
        self.state: Any = self.method.start(self.count)
        self.state.x[:] = self.x

    def respond(self, target: Floats | None) -> RoundSums:
        assert self.method is not None
        if target is None:
            return self._summed(self.method.first(self.state))
        rows, yes = np.arange(self.count), np.ones(self.count, dtype=bool)
        targets = np.broadcast_to(target, (self.count, target.size))
        return self._summed(self.method.respond(self.state, rows, np.ascontiguousarray(targets), yes, yes))

    def _summed(self, contribution: Contribution) -> RoundSums:
        average = np.concatenate([self.weights @ part for part in contribution.parts])
        return RoundSums(average, float(contribution.errors.max()))

    def end_rounds(self, points: Floats | None = None) -> None:
        assert self.method is not None
        x = self.state.x
        if points is not None:
            self._problem = self.problem.placed(points)
        elif isinstance(self.method, Rounds):
            x = x * (self.method.regs[int(self.state.stage[0])] / self.problem.reg)
        self.method = None
        self._evaluate_by(self.problem.float64_oracle, x)

    def draw(self, shares: NDArray[np.int64], start: int) -> Floats:
        return self.problem.drawn(shares, start)

    # results

    def distance(self, p: Floats) -> float:
        logs = self.log_estimates()
        parts = (slice(start, start + BATCH) for start in range(0, self.count, BATCH))
        errors = [np.abs(np.exp(logs[part]) - p).sum(axis=1) for part in parts]
        return float((self.weights * np.concatenate(errors)).sum())

    def bounds(self, p: Floats) -> NodeBounds:
        costs = self._costs if self._problem is None else self.problem.product_costs
        assert costs is not None
        return node_bounds(self.oracle, self.weights, self.x, self.log_estimates(), p, costs)

    # continuing elsewhere

    def snapshot(self) -> dict[str, NDArray[Any]] | None:
        """What is needed to continue after a step as if nothing had happened, with the same problem; None on coarser
        points, at another reg, and in rounds."""
        problem = self.problem
        if self.finer or self.method is not None or self.reg != problem.reg or problem.free is not None:
            return None
        precise = np.array([self.precise, self.saved_reg])
        arrays = {name: getattr(self, name) for name in ("x", "moves", "changes", "fallback", "saved")}
        return {**arrays, "precise": precise}

    def continue_from(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Continue from there."""
        precise, self.saved_reg = snapshot["precise"]
        oracle = self.problem.float64_oracle if precise else self.problem.oracle
        self._evaluate_by(oracle, np.array(snapshot["x"]))
        for name in ("moves", "changes", "fallback", "saved"):
            setattr(self, name, np.array(snapshot[name]))

    def log_estimates(self, numbers: Indices | None = None) -> Floats:
        if self.method is not None:
            return np.asarray(self.state.h[slice(None) if numbers is None else numbers])
        if numbers is not None:
            return np.asarray(self.mean - self.log_p[numbers] if self.mean.size else self.log_p[numbers])
        if self.mean.size:
            # there is no need of the residuals any more
            np.subtract(self.mean, self.log_p, out=self.log_p)
            self.mean = np.zeros(0)
        return self.log_p
