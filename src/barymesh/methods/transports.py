"""What a node does by itself: move its potential until its estimate is a target, at any stage of the regularisation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from barymesh.methods.base import Floats
from barymesh.methods.response import Response
from barymesh.methods.self_transport import SelfTransport
from barymesh.oracle.base import Oracle
from barymesh.oracle.groups import build_oracle
from barymesh.problem import Problem

# Newton's steps of a node in a round: at most so many, until this share of the distance is left; what a step that does
# not come closer is shortened by, and how many lengths are tried; the least damping
LOCAL_STEPS, LOCAL_LEFT, SHORTENED, TRIALS = 3, 0.01, 0.3, 3
LEAST_DAMPING = 1e-8
# Sinkhorn steps of a node to a target: at most so many, each so long, until this share of the distance is left
STEPS, RELAXATION, LEFT = 30, 1.5, 0.05
# steps for the certificate, and the distance that is close enough
LAST_STEPS, LAST_DISTANCE = 100, 1e-14


class Transports:
    """The transports of the measures of a problem, with the regularisations ``regs``, of which the last is the
    problem's. ``by_newton``: the support is small enough for Newton's steps."""

    def __init__(self, problem: Problem, regs: list[float], by_newton: bool) -> None:
        self.problem, self.regs, self.by_newton = problem, regs, by_newton
        self.response = Response(problem)
        self._oracles: dict[int, Oracle] = {}
        self._self_transports: dict[int, SelfTransport] = {}

    def oracle(self, stage: int) -> Oracle:
        """That of a stage of the regularisation, with the atoms of the last."""
        if stage not in self._oracles:
            problem = self.problem
            self._oracles[stage] = (
                problem.float64_oracle
                if stage == len(self.regs) - 1
                else build_oracle(problem.atoms, problem.support, problem.cost, self.regs[stage])
            )
        return self._oracles[stage]

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

    def solved(self, measure: int, stage: int, x: Floats, t: Floats) -> Floats:
        """``x`` with ``log p(x) = t`` up to constants, as closely as can be: Newton's steps where the support is small
        and they raise the dual of the transport to exp(t), else Sinkhorn's."""
        oracle, one = self.oracle(stage), np.array([measure])
        q = np.exp(t - t.max())
        q /= q.sum()

        def evaluated(x: Floats) -> tuple[float, Floats]:
            value, h = oracle.evaluate(x[None], one)
            move = t - h[0]
            return float(q @ x - value[0]), move - q @ move

        dual, move = evaluated(x)
        for _ in range(LAST_STEPS):
            if np.abs(q * np.expm1(np.clip(-move, -1.0, 1.0))).sum() <= LAST_DISTANCE:
                break
            if self.by_newton:
                inverse = self.response.inverse(measure, x, self.regs[stage], LEAST_DAMPING)
                tried = x + inverse @ move
                higher, rest = evaluated(tried)
                if higher >= dual and q @ rest**2 < q @ move**2:
                    x, dual, move = tried, higher, rest
                    continue
            tried = x + move
            higher, rest = evaluated(tried)
            if not q @ rest**2 < q @ move**2:
                # nothing but rounding is left
                break
            x, dual, move = tried, higher, rest
        return x
