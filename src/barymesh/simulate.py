"""One run of a method on a network in virtual time, from options to Result."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.checks import as_floats, real_number
from barymesh.decentralized.algorithm import Algorithm
from barymesh.decentralized.build import Batch, build_algorithm
from barymesh.engines.recorder import Recorder, Reference
from barymesh.engines.simulation import AsynchronousSimulation, Simulation, SynchronousSimulation
from barymesh.errors import DriftWarning, OptionError
from barymesh.exact import certify, solve
from barymesh.exact.transport import transport_costs
from barymesh.metrics import consensus_error, feasibility_residual
from barymesh.network.topology import Network
from barymesh.oracle import build_oracle
from barymesh.oracle.base import Floats, Oracle
from barymesh.problem import Problem
from barymesh.result import Result
from barymesh.scenario.delays import DELAYS, Categorical, Delay
from barymesh.scenario.events import EVENTS, Event, Plan
from barymesh.scenario.events import plan as plan_events
from barymesh.scenario.faults import FAULTS, Fault, fault_table
from barymesh.scenario.schedules import SCHEDULES, Schedule, Windowed
from barymesh.specification import build_named
from barymesh.status import Status

# how closely the reference is computed
REFERENCE_TOL, REFERENCE_ITERATIONS = 1e-9, 20_000
# support points whose costs to one another tell two costs apart
FEW_POINTS = 16
STATUS = {
    "converged": Status.CONVERGED,
    "finished": Status.FINISHED,
    "stopped": Status.STOPPED,
    "interrupted": Status.INTERRUPTED,
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run a method on a network; see ``barymesh.barycenter`` for what each means."""

    method: str
    duration: float = 60.0
    delays: Delay | str = field(default_factory=Categorical)
    schedule: Schedule | str = field(default_factory=Windowed)
    faults: tuple[Fault | str, ...] = ()
    events: tuple[Event | str, ...] = ()
    step: float | str | None = None
    batch: Batch | None = None
    tol: float = 1e-6
    frugal: bool = False
    record_every: float = 1.0
    reference: Any = False
    snapshots: bool = False
    checkpoint: str | Path | None = None
    resume: bool = False

    def checked(self) -> Options:
        """The same with texts read and numbers checked."""
        for name in ("duration", "record_every"):
            value = real_number(getattr(self, name))
            if value is None or value <= 0:
                raise OptionError(
                    f"{name} is {getattr(self, name)!r}; it must be a positive number of virtual seconds."
                )
        if self.resume and self.checkpoint is None:
            raise OptionError("resume=True needs checkpoint=, the file to go on from.")
        return Options(
            **{
                **self.__dict__,
                "delays": _named(self.delays, DELAYS, Delay, "delay"),
                "schedule": _named(self.schedule, SCHEDULES, Schedule, "schedule"),
                "faults": tuple(_named(fault, FAULTS, object, "fault") for fault in _listed(self.faults)),
                "events": tuple(_named(event, EVENTS, object, "event") for event in _listed(self.events)),
            }
        )


def simulate(
    problem: Problem,
    network: Network,
    options: Options,
    *,
    callback: Callable[[Simulation[Any]], bool | None] | None = None,
    progress: bool = False,
) -> Result:
    """Run in virtual time, record on the way, and certify what comes out."""
    from barymesh.progress import following_time

    options = options.checked()
    began = time.perf_counter()
    plan = plan_events(options.events, network)
    everything = problem.also(plan.measures)
    final = _members(everything, plan, len(plan.events))
    recorder = Recorder(everything, network, None, options.snapshots)
    simulation = build_simulation(problem, network, options, recorder, plan)
    before = 0.0
    if options.resume and options.checkpoint is not None:
        simulation.restore(options.checkpoint)
        before = simulation.seconds + recorder.seconds
    # last, because it may take long: whatever is wrong with the options has been said by now
    recorder.reference = as_reference(options.reference, final)
    with following_time(options.duration, options.method, callback) if progress else nullcontext(callback) as watch:
        ending = simulation.run(options.duration, watch)
    if options.checkpoint is not None:
        simulation.save(options.checkpoint)
    return _result(problem, network, options, simulation, STATUS[ending], before + time.perf_counter() - began)


def _members(everything: Problem, plan: Plan, happened: int) -> Problem:
    """The problem of those who are there after so many events, with the measures they have then."""
    present, measure = plan.after(happened)
    if present.all() and (measure == np.arange(plan.size)).all() and len(everything.measures) == plan.size:
        return everything
    nodes = np.flatnonzero(present)
    return everything.with_measures([everything.measures[measure[i]] for i in nodes], everything.weights[nodes])


def build_simulation(
    problem: Problem, network: Network, options: Options, recorder: Recorder, plan: Plan | None = None
) -> Simulation[Any]:
    """The engine for checked options, at time 0."""
    assert isinstance(options.delays, Delay)
    assert isinstance(options.schedule, Schedule)
    faults = fault_table([fault for fault in options.faults if not isinstance(fault, str)], network)
    late = options.delays.table(network).most * options.schedule.clock(network.size, problem.seed).rate
    algorithm = build_algorithm(
        options.method,
        recorder.problem,
        network,
        step=options.step,
        batch=options.batch,
        staleness=int(min(np.ceil(late), 2**31)),
        tol=options.tol,
        frugal=options.frugal,
    )
    if options.events and not algorithm.elastic:
        raise OptionError(f"{options.method} cannot let nodes join, leave or change their data; sinkhorn can.")
    common: dict[str, Any] = {
        "delays": options.delays,
        "faults": faults,
        "seed": problem.seed,
        "record_every": options.record_every,
        "fingerprint": _fingerprint(recorder.problem, network, options),
    }
    if isinstance(algorithm, Algorithm):
        return AsynchronousSimulation(algorithm, network, recorder, schedule=options.schedule, plan=plan, **common)
    return SynchronousSimulation(algorithm, network, recorder, **common)


def exact_reference(problem: Problem) -> Reference:
    """The true barycenter, from the centralised solver."""
    from barymesh.oracle import build_oracle

    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    found = solve(oracle, problem.weights, max_iter=REFERENCE_ITERATIONS, tol=REFERENCE_TOL)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return Reference(found.p, problem.reg * found.dual)


def as_reference(wanted: Any, problem: Problem) -> Reference | None:
    if isinstance(wanted, Reference) or wanted is None:
        return wanted
    if isinstance(wanted, bool | np.bool_):
        return exact_reference(problem) if wanted else None
    weights = as_floats(wanted, "The reference", OptionError)
    if weights.shape != (problem.support.size,) or not abs(weights.sum() - 1) < 1e-6 or (weights < 0).any():
        raise OptionError(
            f"The reference must be True, or the {problem.support.size} weights of a measure on the support, none "
            f"negative, with sum 1; it has shape {weights.shape} and sum {weights.sum():.6g}."
        )
    return Reference(weights, _optimum(problem, weights))


def _optimum(problem: Problem, weights: Floats) -> float:
    """``-sum_i w_i W_i(weights)``: what the dual objective would be at the optimum if these were the barycenter."""
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    costs, _ = transport_costs(oracle, weights, max_iter=REFERENCE_ITERATIONS, tol=REFERENCE_TOL)
    return -float(problem.weights @ costs)


def _result(
    problem: Problem, network: Network, options: Options, simulation: Simulation[Any], status: Status, seconds: float
) -> Result:
    present, _ = simulation.plan.after(simulation.events_done)
    everything = simulation.recorder.problem
    problem = _members(everything, simulation.plan, simulation.events_done)
    network = network.among(present)
    duals = simulation.duals()[present]
    oracle = simulation.recorder.oracle
    if problem is not everything:
        oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
    known_errors = simulation.method.node_errors(simulation.state)
    return certified_result(
        problem, network, oracle, duals,
        conserves=simulation.method.conserves,
        method=options.method,
        status=status,
        iterations=simulation.activations,
        seconds=seconds,
        history=simulation.recorder.history,
        messages=simulation.messages,
        bytes=simulation.bytes,
        snapshots=simulation.recorder.kept_snapshots,
        recording_seconds=simulation.recorder.seconds,
        node_errors=None if known_errors is None else known_errors[present],
    )  # fmt: skip


def warn_of_drift(method: str, feasibility: float, depth: int) -> None:
    """For methods that do not conserve. ``depth``: how many calls the caller is below the user's line, to name that."""
    warnings.warn(
        f"{method} does not keep the sum of the duals: its nodes drift to a measure that is not the barycenter. The "
        f"feasibility residual is now {feasibility:.3g}, and only 0 is right. See docs/explanation/errata.md.",
        DriftWarning,
        stacklevel=depth + 2,
    )


def certified_result(
    problem: Problem, network: Network, oracle: Oracle, duals: Floats, *, conserves: bool, method: str, **told: Any
) -> Result:
    """The Result of nodes whose duals ``(m, n)`` were gathered, with its certificate; ``told``: what else it says."""
    # bounds hold for feasible duals only
    x = (duals - problem.weights @ duals) / problem.reg
    _, log_p = oracle.evaluate(x)
    node_weights = oracle.value_and_gradient(duals)[1]
    p = problem.weights @ node_weights
    p = p / p.sum()
    bounds = certify(oracle, problem.weights, x, log_p, p, problem.largest_cost())
    feasibility = feasibility_residual(duals, problem.weights)
    if not conserves:
        warn_of_drift(method, feasibility, 4)
    return Result(
        weights=p,
        support=problem.support,
        node_weights=node_weights,
        duals=duals,
        value=bounds.upper,
        gap=bounds.gap,
        consensus=consensus_error(node_weights, p, problem.weights),
        feasibility=feasibility,
        reg=problem.reg,
        method=method,
        network=network,
        **told,
    )


def _named(value: Any, known: dict[str, Any], kind: type, what: str) -> Any:
    if isinstance(value, str):
        return build_named(value, known, what, OptionError)
    if not isinstance(value, kind):
        raise OptionError(f"{value!r} is no {what}; give one of {', '.join(known)}, by name or as an object.")
    return value


def _listed(faults: Any) -> Iterable[Any]:
    return faults if isinstance(faults, list | tuple) else (faults,)


def _fingerprint(problem: Problem, network: Network, options: Options) -> str:
    """What two runs must share so that one can go on where the other stopped."""
    digest = hashlib.blake2b(digest_size=8)
    some = problem.support.points[:FEW_POINTS]
    costs = problem.cost.matrix(some, some) if problem.cost.matrix_given is None else problem.cost.matrix_given
    for array in (problem.support.points, problem.weights, network.edges, costs):
        digest.update(np.ascontiguousarray(array).tobytes())
    for atoms in problem.atoms:
        digest.update(atoms.points.tobytes() + atoms.weights.tobytes())
    facts = {
        "data": digest.hexdigest(), "network": network.name, "reg": problem.reg, "seed": problem.seed,
        "precision": problem.precision,
        "method": options.method, "delays": repr(options.delays), "schedule": repr(options.schedule),
        "faults": repr(options.faults), "events": repr(options.events), "step": options.step,
        "batch": repr(options.batch), "tol": options.tol, "frugal": options.frugal,
        "record_every": options.record_every, "snapshots": options.snapshots,
        "reference": options.reference is not None and options.reference is not False,
    }  # fmt: skip
    return json.dumps(facts)
