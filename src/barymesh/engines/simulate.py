"""One run of a method on a network in virtual time, from options to Result."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from typing import Any

import numpy as np

from barymesh.checks import as_floats
from barymesh.decentralized.algorithm import Algorithm
from barymesh.decentralized.build import build_algorithm
from barymesh.engines.recorder import Recorder, Reference
from barymesh.engines.simulation import AsynchronousSimulation, Simulation, SynchronousSimulation
from barymesh.errors import DriftWarning, OptionError
from barymesh.exact import certify, solve
from barymesh.exact.transport import transport_costs
from barymesh.metrics import consensus_error, feasibility_residual
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.oracle import build_oracle
from barymesh.oracle.base import Floats, Oracle
from barymesh.problem import Problem
from barymesh.progress import following_time
from barymesh.result import Result
from barymesh.scenario.delays import Delay
from barymesh.scenario.events import Plan
from barymesh.scenario.events import plan as plan_events
from barymesh.scenario.faults import fault_table
from barymesh.scenario.schedules import Schedule
from barymesh.status import Status

# how closely the reference is computed
REFERENCE_TOL, REFERENCE_ITERATIONS = 1e-9, 20_000
# support points whose costs to one another tell two costs apart
FEW_POINTS = 16
STATUS = {
    "converged": Status.CONVERGED,
    "finished": Status.OUT_OF_TIME,
    "stopped": Status.STOPPED,
    "interrupted": Status.INTERRUPTED,
}


def simulate(
    problem: Problem,
    network: Network,
    options: RunOptions,
) -> Result:
    """Run in virtual time, record on the way, and certify what comes out."""
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
    with following_time(options.duration, options.method, bool(options.progress), options.callback) as watch:
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
    problem: Problem, network: Network, options: RunOptions, recorder: Recorder, plan: Plan | None = None
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
    problem: Problem, network: Network, options: RunOptions, simulation: Simulation[Any], status: Status, seconds: float
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
        activations=simulation.activations,
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


def _fingerprint(problem: Problem, network: Network, options: RunOptions) -> str:
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
        "batch": repr(options.batch), "tol": options.tol,
        "record_every": options.record_every, "snapshots": options.snapshots,
        "reference": options.reference is not None and options.reference is not False,
    }  # fmt: skip
    return json.dumps(facts)
