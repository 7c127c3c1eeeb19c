"""Rounds on a star: sites that keep their measures, and a coordinator that adds up what they send.

The method is that of the networks without a coordinator (methods/rounds.py), with the same local code at the sites and
the same code of the root at the coordinator. What carries the messages, which are arrays, is up to the framework:

    report = site.report(round, target)            at each site; no target in round 0
    coordinator.advance([report, ...])             with the reports of all sites: the next round and target, or the end

Here the coordinator sees the report of each site. With masks (masked_star.py) it sees their sums only.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh import readers as read
from barymesh.decentralized.masks.sums import Total
from barymesh.errors import (
    AccuracyWarning,
    MeasureError,
    NetworkError,
    NumericalError,
    OptionError,
    SupportError,
    WeightError,
)
from barymesh.measures.absent import Absent
from barymesh.methods.base import UNKNOWN_ERROR, Contribution
from barymesh.methods.chosen_rounds import chosen_rounds
from barymesh.methods.convergence import remaining_distance
from barymesh.methods.orders import Report as Averages
from barymesh.methods.rounds import Rounds
from barymesh.problem import Problem
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.points import Support
from barymesh.support.text import parse_support

Floats = NDArray[np.float64]

# every site counts the same
EQUAL = "equal"
# the certificate takes so many rounds at most, once the last regularisation is reached: a shorter step, a plain one,
# the one to the barycenter
LAST_ROUNDS = 3
# sums may exceed their bounds by this share, for rounding
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class StarOptions:
    """What coordinator and sites must agree on: the ``support``, a grid as text (``100:-5:5``); ``reg``, absolute; how
    many ``sites`` take part; ``tol``, the L1 distance from the barycenter at which they stop; ``max_rounds``;
    ``weights``: "equal", or "size" for the number of records; ``masks``: whether the coordinator sees sums over all
    sites only, for which each site needs an identity."""

    support: str
    reg: float
    sites: int
    tol: float = 1e-6
    max_rounds: int = 500
    weights: str = EQUAL
    masks: bool = True

    def __post_init__(self) -> None:
        read.regularisation("reg", self.reg)
        read.count("sites", self.sites)
        read.positive("tol", self.tol)
        read.count("max_rounds", self.max_rounds)
        read.one_of(EQUAL, read.SIZE)("weights", self.weights)
        read.boolean("masks", self.masks)
        # a site opens no file that others name, and nobody knows all data that a support could be chosen from
        if not isinstance(self.support, str) or ":" not in self.support:
            raise SupportError(
                f"The support is {self.support!r}; sites need a grid: count:lower:upper for each axis, joined by "
                "commas (100:-5:5 or 64:0:1,64:0:1)."
            )
        _ = self.points

    @property
    def points(self) -> Support:
        """The support."""
        found = parse_support(self.support, check_only=True)
        if not isinstance(found, Support):
            raise SupportError(f"The support {self.support!r} is a file; sites need a grid, such as 100:-5:5.")
        return found

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> StarOptions:
        """From the configuration of an application, which may have other keys too; ``max-rounds`` is ``max_rounds``."""
        given = {key.replace("-", "_"): value for key, value in config.items()}
        names = [one.name for one in fields(cls)]
        for key in given.keys() - set(names):
            if near := get_close_matches(key, names, cutoff=0.9):
                raise OptionError(f"The configuration has {key!r}, which is no option. Did you mean {near[0]!r}?")
        missing = [name for name in ("support", "reg", "sites") if name not in given]
        if missing:
            raise OptionError(
                f"The configuration has no {missing[0]!r}. A barycenter needs support, reg and sites, for example "
                'support = "100:-5:5", reg = 0.1, sites = 3.'
            )
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given})

    def rounds(self, measure: Any, seed: int = 0) -> Rounds:
        """The method, with this measure as the only one."""
        problem = Problem.create([measure], self.points, reg=self.reg, seed=seed)
        return chosen_rounds(problem, self.sites, masked=self.masks)


# the arrays that a site sends, by name
Report = Mapping[str, NDArray[Any]]


class Site:
    """A site with its own measure. ``seed``: of samples, where the measure can only be drawn from."""

    def __init__(self, options: StarOptions, measure: Any, *, seed: int = 0) -> None:
        self.method = options.rounds(measure, seed)
        own = self.method.problem.measures[0]
        if options.weights == read.SIZE and not own.records:
            raise WeightError(
                f"weights={read.SIZE!r} counts records, and the measure has none to count: it is a "
                f"{type(own).__name__}, not samples. Use weights={EQUAL!r}, at all sites."
            )
        self.weight = float(own.records or 1) if options.weights == read.SIZE else 1.0
        self.state = self.method.start(1)
        self.round = -1

    def report(self, number: int, target: Floats | None = None) -> Report:
        """Act on the ``target (down,)`` of the round of this number: the ``weight`` of the site, the ``error``, that is
        the distance of its estimate from the target in L1, and the ``sums (up,)``, its contribution times its weight. A
        round that is asked for twice is answered twice, and acted on once."""
        self.check_order(number, target)
        contribution = self.contribution(number, target)
        self.round = number
        sums = self.weight * np.concatenate([part[0] for part in contribution.parts])
        return {"weight": np.array(self.weight), "error": contribution.errors[0], "sums": sums}

    def check_order(self, number: int, target: Floats | None) -> None:
        """NetworkError if the round does not follow the last one."""
        if number not in (self.round, self.round + 1) or (target is None) != (number == 0):
            raise NetworkError(
                f"The coordinator is in round {number}, and this site was last in round {self.round}: it has lost its "
                "memory of the run, or has missed a round. Start the run again."
            )

    def contribution(self, number: int, target: Floats | None) -> Contribution:
        """What the site adds to the sums of a round, before it is multiplied by its weight."""
        if target is None:
            return self.method.first(self.state)
        lower, upper = self.method.target_bounds()
        if target.shape != lower.shape or not ((target >= lower) & (target <= upper)).all():
            raise NetworkError(
                f"The target of round {number} is not one of this run: it needs {lower.size} numbers within "
                "bounds. Coordinator and sites must have the same support, reg and sites."
            )
        row, yes = np.array([0]), np.array([True])
        fresh = np.array([number > self.round])
        return self.method.respond(self.state, row, target[None].astype(float), yes, fresh)

    def saved(self) -> dict[str, NDArray[Any]]:
        """Its memory, as arrays: frameworks may run each round in a process of its own."""
        return {**self.state.saved(), "round": np.array(self.round), "data": self._digest()}

    def restore(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take over what ``saved`` gave; an error if that was with other data."""
        if not np.array_equal(stored["data"], self._digest()):
            raise MeasureError(
                "The data of this site are not those that the run began with. They must be the same in every round: "
                "load a private release, or samples, from a file that was written before."
            )
        self.state.restore(stored)
        self.round = int(stored["round"])

    def _digest(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.method.problem.atoms[0].digest(), dtype=np.uint8)


class Coordinator:
    """Makes targets of the sums over the sites, of which it knows no measure. ``round`` and ``target`` are what the
    sites must be sent next; ``result``, at the end, the barycenter with its certificate."""

    # the names of the arrays in a report
    report_names: tuple[str, ...] = ("weight", "error", "sums")

    def __init__(self, options: StarOptions) -> None:
        self.options = options
        with warnings.catch_warnings():
            # the sites warn of supports that do not fit their data
            warnings.simplefilter("ignore", AccuracyWarning)
            self.method = options.rounds(Absent())
        self.state = self.method.start(1)
        self.round = 0
        self.target: Floats | None = None
        self.error = UNKNOWN_ERROR
        self.result: Result | None = None
        self._left, self._rate, self._converged = UNKNOWN_ERROR, 1.0, False
        self._began = time.perf_counter()

    def advance(self, reports: Sequence[Report]) -> None:
        """Take the reports of all sites on the present round, always in the same order."""
        self.check_complete(reports)
        for k, one in enumerate(reports):
            self._check(k, one)
        weights, errors, sums = (np.array([one[name] for one in reports]) for name in self.report_names)
        total = Total(sums.sum(axis=0) / weights.sum(), float(weights.sum()), float(errors.max()))
        self.target = self.step(total, self.target, float(weights @ errors / weights.sum()))

    def step(self, total: Total, target: Floats | None, consensus: float) -> Floats:
        """The target that follows the present one of the method, ``target (down,)``, or the end."""
        average = np.clip(total.average, *self.method.contribution_bounds())
        answer = self.method.order(self.state, 0, average, target, total.weight, total.error, self._enough)
        if not np.isfinite(answer.target).all():
            raise NumericalError(
                "The barycenter came out with numbers that are not finite. Check the measures for extreme coordinates "
                "or masses, or use a larger reg."
            )
        self.round += 1
        found = np.clip(answer.target, *self.method.target_bounds())
        if answer.finished or self.round >= self.options.max_rounds:
            restored = self.method.restored(average, target)
            self.result = self._result(self.method.report(restored), found, consensus, answer.finished)
        return np.asarray(found)

    def _enough(self, left: float) -> bool:
        """Whether to certify: the sites are close enough, or there is time for nothing else."""
        self._rate, self.error = remaining_distance(left, self._left, self._rate)
        self._left = left
        self._converged = self.error <= self.options.tol
        return self._converged or self.round + 1 >= self.options.max_rounds - LAST_ROUNDS

    def check_complete(self, reports: Sequence[Report]) -> None:
        """NetworkError if a site or a part of its report is missing."""
        if len(reports) != self.options.sites:
            raise NetworkError(
                f"Round {self.round} has the reports of {len(reports)} sites; all {self.options.sites} are needed."
            )
        for k, one in enumerate(reports):
            if set(one) != set(self.report_names):
                raise NetworkError(
                    f"Report {k} of round {self.round} has {', '.join(map(repr, one)) or 'nothing'}, and needs "
                    f"{', '.join(map(repr, self.report_names))}. All sites must run the same application."
                )

    def _check(self, k: int, one: Report) -> None:
        """NetworkError if report k is out of bounds."""
        lower, upper = self.method.contribution_bounds()
        weight, error, sums = (one[name] for name in self.report_names)
        if not (np.isfinite(weight) and weight > 0 and 0 <= error <= UNKNOWN_ERROR + ROUNDING):
            raise NetworkError(
                f"Report {k} of round {self.round} has weight {weight} and error {error}; weights are positive, and "
                f"errors between 0 and {UNKNOWN_ERROR:g}. The site is not to be trusted."
            )
        scale = weight * (1.0 + ROUNDING)
        if sums.shape != lower.shape or not ((sums >= scale * lower) & (sums <= scale * upper)).all():
            raise NetworkError(
                f"Report {k} of round {self.round} is not one of this run: it needs {lower.size} numbers within "
                "bounds. Coordinator and sites must have the same support, reg and sites."
            )

    def _result(self, report: Averages, target: Floats, consensus: float, certified: bool) -> Result:
        """The barycenter as the coordinator knows it: without estimates or potentials of single sites, and with masks
        without the objective."""
        n, reg = self.method.points, self.options.reg
        log_q = target[:n] if certified else report.log_q
        weights = np.exp(log_q - log_q.max())
        none = np.empty((0, n))
        return Result(
            weights=weights / weights.sum(), support=self.method.problem.support, node_weights=none, duals=none,
            value=reg * report.upper if certified and not self.options.masks else np.nan,
            gap=float(self.method.gaps(target[None])[0]) if certified else np.nan,
            consensus=consensus if certified else np.nan, feasibility=np.nan, reg=reg, method="rounds",
            status=Status.CONVERGED if certified and self._converged else Status.MAX_ITERATIONS,
            seconds=time.perf_counter() - self._began, activations=self.round * self.options.sites,
            measures=self.options.sites,
        )  # fmt: skip
