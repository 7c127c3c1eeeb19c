"""One run of a method on a network in virtual time, from options to Result."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import AsynchronousAlgorithm, Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.tree.spanning_tree import SpanningTree
from barymesh.engines.masks import owned_masks
from barymesh.engines.outcome import network_result
from barymesh.engines.recorder import Recorder
from barymesh.engines.simulation import AsynchronousSimulation, Simulation, SynchronousSimulation
from barymesh.errors import AccuracyWarning, OptionError, warn
from barymesh.exact.certificate import certify
from barymesh.exact.reference import as_reference
from barymesh.exact.start import start_potentials
from barymesh.methods.debiasing import debiasing_of
from barymesh.network.topology import Network
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.progress import time_progress
from barymesh.result import Result
from barymesh.scenario.delays import Delay
from barymesh.scenario.events import Plan
from barymesh.scenario.events import plan as plan_events
from barymesh.scenario.faults import FaultTable, fault_table
from barymesh.scenario.schedules import Schedule
from barymesh.status import Status

# support points whose costs to one another identify a cost
FEW_POINTS = 16


def simulate(problem: Problem, network: Network, options: RunOptions) -> Result:
    """Run in virtual time, record on the way, and certify the result."""
    began = time.perf_counter()
    simulation = build_simulation(problem, network, options)
    before = 0.0
    if options.resume and options.checkpoint is not None:
        simulation.restore(options.checkpoint)
        before = simulation.seconds + simulation.recorder.seconds
    # last, because it may take long: whatever is wrong with the options has been reported by now
    final = _members_problem(simulation, options.duration)
    simulation.recorder.reference = as_reference(options.reference, final)
    with time_progress(options.duration, options.method, bool(options.progress), options.callback) as watch:
        status = simulation.run(options.duration, watch)
    if options.checkpoint is not None:
        simulation.save(options.checkpoint)
    members = simulation.members()
    if status is Status.OUT_OF_TIME:
        _warn_of_missing_sums(simulation, members)
    rows = np.flatnonzero(members)
    weights = simulation.recorder.weights(members)[rows]
    view = simulation.view().part(rows)
    if simulation.lost_members().any():
        # what the nodes have certified is the barycenter with the measures of those that are gone
        view = replace(view, gaps=np.full(rows.size, np.nan))
    known = view.placed(simulation.known(rows), weights)
    x, oracle = view.potentials(problem, weights), known.float64_oracle
    log_p = oracle.evaluate(x)[1]
    p = view.barycenter(problem, weights)
    certificate = certify(oracle, weights, x, log_p, p, known.product_costs, debiasing_of(problem))
    return network_result(
        simulation.algorithm, simulation.recorder, view, members, known, certificate,
        status=status,
        activations=simulation.activations,
        traffic=simulation.traffic,
        seconds=before + time.perf_counter() - began,
    )  # fmt: skip


def _warn_of_missing_sums(simulation: Simulation[Any], members: NDArray[np.bool_]) -> None:
    """Say why the last sums with masks lack a node, if one does."""
    algorithm, state = simulation.algorithm, simulation.state
    if not isinstance(algorithm, SpanningTree) or algorithm.masked is None:
        return
    for node in np.flatnonzero(members).tolist():
        if why := algorithm.why_not(state, node):
            warn(f"Node {node} does not contribute to the masked sums: {why}.", AccuracyWarning)
            return


def build_simulation(
    problem: Problem, network: Network, options: RunOptions, recorder: Recorder | None = None
) -> Simulation[Any]:
    """The simulation at time 0."""
    assert isinstance(options.delays, Delay)
    assert isinstance(options.schedule, Schedule)
    plan = plan_events(options.events, network)
    everything = problem.with_further_measures(plan.measures)
    recorder = recorder or Recorder(everything, network, snapshots=options.snapshots, virtual=True)
    faults = fault_table([fault for fault in options.faults if not isinstance(fault, str)], network)
    _check_survivors(plan, faults, options.duration)
    late = options.delays.table(network).longest * options.schedule.clock(network.size, problem.seed).rate
    algorithm = build_algorithm(
        options.method,
        everything,
        Nodes.all_of(network, everything.weights),
        step=options.step,
        batch=options.batch,
        staleness=int(min(np.ceil(late), 2**31)),
        tol=options.tol,
        masks=owned_masks(options, network.size, problem.seed),
        start=start_potentials(options.start, everything),
    )
    if options.events and not algorithm.elastic:
        raise OptionError(
            f"{options.method} cannot let nodes join, leave or change their data; sinkhorn and rounds can."
        )
    common: dict[str, Any] = {
        "delays": options.delays,
        "faults": faults,
        "seed": problem.seed,
        "record_every": options.record_every,
        "until": options.duration,
        "fingerprint": _fingerprint(everything, network, options),
    }
    if isinstance(algorithm, AsynchronousAlgorithm):
        return AsynchronousSimulation(algorithm, recorder, schedule=options.schedule, plan=plan, **common)
    return SynchronousSimulation(algorithm, recorder, **common)


def _check_survivors(plan: Plan, faults: FaultTable, until: float) -> None:
    present = plan.after(plan.before(until))[0]
    if not (present & ~faults.lost(until, until)).any():
        raise OptionError("Every node would be down at the end of the run. Let at least one node survive.")


def _members_problem(simulation: Simulation[Any], until: float) -> Problem:
    """The problem of the nodes that are there at time ``until``, with the measures they have then."""
    everything, plan = simulation.recorder.problem, simulation.plan
    present, measure = plan.after(plan.before(until))
    members: NDArray[np.bool_] = present & ~simulation.faults.lost(until, until)
    if members.all() and len(everything.measures) == plan.size:
        return everything
    nodes = np.flatnonzero(members)
    return everything.part(measure[nodes], everything.weights[nodes])


def _fingerprint(problem: Problem, network: Network, options: RunOptions) -> str:
    """What two runs must share so that one can continue where the other stopped."""
    digest = hashlib.blake2b(digest_size=8)
    some = problem.support.points[:FEW_POINTS]
    costs = problem.cost.matrix(some, some) if problem.cost.matrix_given is None else problem.cost.matrix_given
    for array in (problem.support.points, problem.weights, network.edges, costs):
        digest.update(np.ascontiguousarray(array).tobytes())
    for atoms in problem.atoms:
        digest.update(atoms.points.tobytes() + atoms.weights.tobytes())
    facts = {
        "data": digest.hexdigest(), "network": network.name, "reg": problem.reg, "seed": problem.seed,
        "precision": problem.precision, "free": repr(problem.free), "debias": problem.debias,
        "method": options.method, "delays": repr(options.delays), "schedule": repr(options.schedule),
        "faults": repr(options.faults), "events": repr(options.events), "step": options.step,
        "batch": repr(options.batch), "tol": options.tol, "masks": options.masks,
        "record_every": options.record_every, "snapshots": options.snapshots,
        "reference": options.reference is not None and options.reference is not False,
    }  # fmt: skip
    return json.dumps(facts)
