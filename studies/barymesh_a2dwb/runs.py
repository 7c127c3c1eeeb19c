"""One run of a study, and the true barycenter that it is compared with.

The results of this module depend on its arguments, and on its own source and that of the modules it imports: see
``fingerprints.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from barymesh.engines.recorder import Recorder
from barymesh.engines.simulate import build_simulation
from barymesh.errors import NumericalError
from barymesh.exact import solve
from barymesh.exact.certificate import completed
from barymesh.exact.reference import ITERATIONS, TOL, Reference
from barymesh.exact.rows import Rows
from barymesh.network import as_network
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.status import Status
from barymesh.support.points import Support
from barymesh_a2dwb.study import OURS, OURS_SAMPLED, RIVALS, Floats, Run

if TYPE_CHECKING:
    from barymesh_a2dwb.experiments import ExperimentPlan, Job

# called now and then during a run; True ends it with a KeyboardInterrupt
Stop = Callable[[object], bool]


@dataclass(frozen=True, eq=False)
class Certified:
    """The true barycenter, ``weights (n,)`` on the support. The optimum of the dual objective lies in
    ``[optimum - gap, optimum]``. ``seconds``: the computing time."""

    support: Support
    weights: Floats
    optimum: float
    gap: float
    seconds: float = float("nan")


def find_reference(case: ExperimentPlan, reg: float, stop: Stop | None = None) -> Certified:
    """The true barycenter of an experiment with this reg, by the exact solver, with its certificate."""
    began = time.perf_counter()
    problem = _problem(case, reg)
    nodes = Rows(problem.float64_oracle, problem.weights, problem)
    found = solve(nodes, max_iter=ITERATIONS, tol=TOL, callback=stop)
    if found.status in (Status.INTERRUPTED, Status.STOPPED):
        raise KeyboardInterrupt
    bounds = completed(nodes.bounds(found.p), found.p, reg)
    # the dual objective is minimised: -upper is a lower bound of its optimum, and gap above that is an upper bound
    optimum = bounds.gap - bounds.upper
    return Certified(problem.support, found.p, optimum, bounds.gap, time.perf_counter() - began)


def run_job(case: ExperimentPlan, job: Job, known: Certified, stop: Stop | None = None) -> Run:
    """One run in virtual time. Divergence is an outcome like others: the history up to it is kept."""
    began = time.perf_counter()
    problem = _problem(case, job.reg)
    network = _network(job.topology, case.setting.nodes, case.setting.seed)
    step = job.step_factor * job.reg / network.lambda_max if job.method in RIVALS else None
    options = RunOptions(
        method=OURS if job.method == OURS_SAMPLED else job.method,
        step=step,
        batch=None if job.method == OURS else job.samples or "exact",
        record_every=job.record_every,
        duration=job.duration,
    )
    recorder = Recorder(problem, network, reference=Reference(known.weights, known.optimum), virtual=True)
    simulation = build_simulation(problem, network, options, recorder)
    means: dict[float, Floats] = dict.fromkeys(case.times, np.full(problem.support.size, np.nan))
    status = "finished"
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            for moment in sorted({*case.times, job.duration}):
                ending = simulation.run(moment, stop)
                if ending in (Status.INTERRUPTED, Status.STOPPED):
                    raise KeyboardInterrupt
                status = "converged" if ending is Status.CONVERGED else "finished"
                if moment in means:
                    means[moment] = problem.weights @ simulation.view().estimates
    except NumericalError:
        status = "diverged"
    seconds = time.perf_counter() - began
    factor = None if step is None else job.step_factor
    return Run(job.experiment, job.topology, job.method, step, recorder.history, means, seconds, status, factor)


def _problem(case: ExperimentPlan, reg: float) -> Problem:
    """The problem with this reg. That of the case itself has cached its atoms, which take half a second to compute for
    the Gaussians."""
    return case.problem if reg == case.problem.reg else replace(case.problem, reg=reg)


@lru_cache(maxsize=8)
def _network(topology: str, nodes: int, seed: int) -> Network:
    return as_network(topology, nodes, seed)
