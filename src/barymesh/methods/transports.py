"""What a node does by itself: move its potential until its estimate is a target, at any stage of the regularisation."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from barymesh.methods.base import Floats, Indices
from barymesh.methods.centring import Centring
from barymesh.methods.response import Response
from barymesh.methods.self_transport import SelfTransport
from barymesh.methods.sinkhorn import solved
from barymesh.methods.stages import stages
from barymesh.oracle.base import Oracle
from barymesh.oracle.groups import build_oracle
from barymesh.problem import Problem, support_cost

# Newton's steps of a node in a round: at most so many, until this share of the distance is left; what a step that does
# not come closer is shortened by, and how many lengths are tried; the least damping
LOCAL_STEPS, LOCAL_LEFT, SHORTENED, TRIALS = 3, 0.01, 0.3, 3
LEAST_DAMPING = 1e-8
# Sinkhorn steps of a node to a target: at most so many, each so long, until this share of the distance is left
STEPS, RELAXATION, LEFT = 30, 1.5, 0.05
# evaluations for a transport that is solved to the last digits, and the distance that is close enough
LAST_STEPS, LAST_DISTANCE = 300, 1e-14
_ONE = np.zeros(1, dtype=np.intp)


class Transports:
    """The transports of the measures of a problem, with the regularisations ``regs``, of which the last is the
    problem's."""

    def __init__(self, problem: Problem, regs: list[float]) -> None:
        self.problem, self.regs = problem, regs
        self._oracles: dict[int, Oracle] = {}
        self._homes: dict[int, Floats] = {}
        self._larger: dict[float, Oracle] = {}
        self._self_transports: dict[int, SelfTransport] = {}

    @property
    def measured(self) -> Problem:
        """The problem whose measures are transported."""
        return self.problem

    @cached_property
    def response(self) -> Response:
        return Response(self.measured)

    def oracle(self, stage: int) -> Oracle:
        """That of a stage of the regularisation, with the atoms of the last."""
        if stage not in self._oracles:
            problem = self.measured
            self._oracles[stage] = (
                problem.float64_oracle
                if stage == len(self.regs) - 1
                else build_oracle(problem.atoms, problem.support, problem.cost, self.regs[stage])
            )
        return self._oracles[stage]

    def home(self, measure: int) -> Floats:
        """``(n,)``, with mean 0: the potential of the transport to the uniform measure at the first reg, solved as
        closely as can be. It is solved with larger regs first, from one as large as the largest cost on the support,
        where the data determine all of it to the last digits; so it moves with the data."""
        if measure not in self._homes:
            problem, last = self.measured, self.regs[0]
            regs = stages(last, support_cost(problem), 1.0)
            x, before = np.zeros(problem.support.size), regs[0]
            uniform = np.full(x.size, -np.log(x.size))
            for reg in regs:
                if reg not in self._larger:
                    self._larger[reg] = build_oracle(problem.atoms, problem.support, problem.cost, reg)
                own = _Own(self._larger[reg], self.response, measure, reg)
                x, before = solved(own, x[None] * (before / reg), uniform, LAST_DISTANCE, LAST_STEPS)[0], reg
            self._homes[measure] = x - x.mean()
        return self._homes[measure]

    def self_transport(self, stage: int) -> SelfTransport:
        if stage not in self._self_transports:
            self._self_transports[stage] = SelfTransport(replace(self.problem, reg=self.regs[stage]))
        return self._self_transports[stage]

    def moved(
        self, measure: int, stage: int, x: Floats, move: Floats, damping: float, steps: int, inverse: Floats | None
    ) -> Floats:
        """``x`` after some of Newton's steps towards a y with ``log p(y) + damping (y - x) = log p(x) + move``, up to
        constants; one step where no shorter one comes closer. ``inverse (n, n)``: ``Response.inverse`` at x, if it is
        known."""
        oracle, one, reg = self.oracle(stage), np.array([measure]), self.regs[stage]
        step = first = (self.response.inverse(measure, x, reg, damping) if inverse is None else inverse) @ move
        if steps == 1:
            return x + first
        t = oracle.evaluate(x[None], one)[1][0] + move
        q = np.exp(t - t.max())
        q /= q.sum()

        def left(y: Floats) -> tuple[float, Floats]:
            rest = t - oracle.evaluate(y[None], one)[1][0] - damping * (y - x)
            rest -= q @ rest
            return float(q @ rest**2), rest

        y, (distance, rest) = x, left(x)
        enough = LOCAL_LEFT**2 * distance
        for k in range(1, steps + 1):
            for _ in range(TRIALS):
                closer, remainder = left(y + step)
                if closer < distance:
                    break
                step = SHORTENED * step
            else:
                return y if k > 1 else x + first
            y, distance, rest = y + step, closer, remainder
            if distance <= enough or k == steps:
                break
            step = self.response.inverse(measure, y, reg, damping) @ rest
        return y

    def approached(self, measure: int, stage: int, x: Floats, t: Floats) -> Floats:
        """``x`` after some Sinkhorn steps towards ``log p(x) = t``."""
        oracle, one, first = self.oracle(stage), np.array([measure]), 0.0
        q = np.exp(t - t.max())
        q /= q.sum()
        for k in range(STEPS):
            move = t - oracle.evaluate(x[None], one)[1][0]
            move -= q @ move
            size = float(np.sqrt(q @ move**2))
            first = max(first, size)
            if size <= LEFT * first and k > 0:
                break
            x = x + RELAXATION * move
        return x

    def solved(self, measure: int, stage: int, x: Floats, t: Floats) -> tuple[Floats, float]:
        """``x`` with ``log p(x) = t`` up to constants, as closely as can be (sinkhorn.py), and the distance in L1 of
        p(x) from exp(t) that is left."""
        log_p = _normalised(t)
        own = _Own(self.oracle(stage), self.response, measure, self.regs[stage])
        x = solved(own, x[None], log_p, LAST_DISTANCE, LAST_STEPS)[0]
        h = own.evaluate(x[None], _ONE)[1][0]
        # where there is next to no mass, this step alone is exact
        return x + log_p - h, float(np.abs(np.exp(h) - np.exp(log_p)).sum())


class CentredTransports(Transports):
    """Those of the measures after ``centring``."""

    def __init__(self, centring: Centring, regs: list[float]) -> None:
        super().__init__(centring.given, regs)
        self._centring = centring

    @property
    def measured(self) -> Problem:
        return self._centring.problem


def _normalised(t: Floats) -> Floats:
    t = t - t.max()
    return np.asarray(t - np.log(np.exp(t).sum()))


class _Own:
    """The transport of one measure, as sinkhorn.py wants it."""

    def __init__(self, oracle: Oracle, response: Response, measure: int, reg: float) -> None:
        self.oracle, self.response, self.measure, self.reg = oracle, response, measure, reg

    def evaluate(self, x: Floats, nodes: Indices) -> tuple[Floats, Floats]:
        return self.oracle.evaluate(x, np.full(len(nodes), self.measure))

    def products(self, x: Floats, nodes: Indices) -> Floats:
        return np.array([self.response.products(self.measure, one, self.reg) for one in x])
