"""The methods a user can name, and how each is set up for a problem and a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh import readers as read
from barymesh.checks import whole_number
from barymesh.decentralized.algorithm import AsynchronousAlgorithm, Nodes, SynchronousAlgorithm
from barymesh.decentralized.baselines.a2dwb import A2DWB
from barymesh.decentralized.baselines.conserving import ConservingA2DWB
from barymesh.decentralized.baselines.dcwb import DCWB
from barymesh.decentralized.baselines.gossip_sinkhorn import GossipSinkhorn
from barymesh.decentralized.baselines.steps import growing_batch, practical_step, theoretical_step
from barymesh.decentralized.baselines.theta import ThetaSequence
from barymesh.decentralized.tree import SpanningTree
from barymesh.errors import OptionError
from barymesh.gradients.batch_size import BatchSize, GrowingBatch
from barymesh.gradients.logarithmic import BestLogGradients, ExactLogGradients, GrowingLogGradients, LogGradients
from barymesh.gradients.plain import ExactGradients, Gradients, SampledGradients
from barymesh.method_names import DEBIASED_METHODS, NETWORK_METHODS, WITHOUT_STEP
from barymesh.methods.chosen_rounds import chosen_rounds
from barymesh.methods.debiased import DebiasedRounds
from barymesh.methods.entropic import WITHIN_LIMITS, require_reach
from barymesh.methods.free_support import FreeSupportMethod
from barymesh.methods.rounds import Rounds
from barymesh.methods.stages import needs_rounds
from barymesh.network.topology import Network
from barymesh.problem import Problem

if TYPE_CHECKING:
    from barymesh.decentralized.masks.streams import Masks

Floats = NDArray[np.float64]

# samples for a gradient by default
FRESH_SAMPLES = 10
# samples that a node adds to those it has
NEW_SAMPLES = 100


def build_algorithm(
    method: str,
    problem: Problem,
    nodes: Nodes,
    *,
    step: float | str | None = None,
    batch: BatchSize | None = None,
    staleness: int = 0,
    tol: float = 0.0,
    masks: Masks | None = None,
    start: Floats | None = None,
) -> AsynchronousAlgorithm[Any] | SynchronousAlgorithm[Any]:
    """The method ready to run on the ``nodes``, whose measures the problem has, in the order of their rows, and perhaps
    others that nodes change to. ``step``: a number, "theory", or None for the practical default; ``staleness``: the
    most activations of the network that a message may be late, for the theory; ``tol``: when nodes may stop by
    themselves; ``masks``: for rounds, see decentralized/masks; ``start (k, n)``: potentials that the nodes begin with,
    in units of the cost."""
    if method not in NETWORK_METHODS:
        raise OptionError(f"Unknown method {method!r} for a network; choose one of {', '.join(NETWORK_METHODS)}.")
    if method in WITHOUT_STEP and step is not None:
        raise OptionError(f"{method} has no step to choose; leave step out.")
    if masks is not None and method != "rounds":
        raise OptionError(f"Sums are masked in rounds, and the method is {method!r}: give method='rounds'.")
    if start is not None and (problem.free is not None or method not in ("sinkhorn", "rounds")):
        raise OptionError(
            "On a network start= is for the methods sinkhorn and rounds, on a support whose points stay; leave it out."
        )
    if problem.free is not None:
        if method not in ("sinkhorn", "rounds") or batch not in (None, "exact"):
            raise OptionError(
                f"A free support has one method, in rounds, with all of the measures: leave method={method!r} and "
                f"batch={batch!r} out."
            )
        if masks is not None and problem.free.reach is None:
            raise OptionError(
                "Sums are masked in fixed point, and all nodes must know how large their numbers can be: give the free "
                "support a reach, the largest coordinate of any measure, such as reach=10."
            )
        return SpanningTree(FreeSupportMethod(problem, masked=masks is not None), nodes, tol, masks)
    if problem.debias and method not in DEBIASED_METHODS:
        raise OptionError(f"{method} finds the entropic barycenter only; leave out debias.")
    if method == "sinkhorn":
        kind = DebiasedRounds if problem.debias else Rounds
        logarithmic = _log_gradients(batch, problem)
        careful = logarithmic.final and needs_rounds(problem)
        sinkhorn = kind(problem, logarithmic, nodes.size, from_start=careful)
        sinkhorn.initial = None if start is None else start / problem.reg
        return SpanningTree(sinkhorn, nodes, tol)
    if method == "rounds":
        if batch not in (None, "exact"):
            raise OptionError(f"rounds uses all that is known of the measures; leave batch={batch!r} out.")
        if masks is not None:
            require_reach(problem, WITHIN_LIMITS)
        rounds = chosen_rounds(problem, nodes.size, masked=masks is not None)
        rounds.name = method
        rounds.initial = None if start is None else start / problem.reg
        return SpanningTree(rounds, nodes, tol, masks)
    if method == "gossip_sinkhorn":
        return GossipSinkhorn(nodes, _log_gradients(batch, problem))
    points, network = problem.support.size, nodes.network
    length = choose_step(step, problem, network, staleness)
    gradients = _gradients(batch, problem, network)
    if method == "dcwb":
        return DCWB(points, nodes, gradients, length)
    if method == "a2dwb_conserving":
        # its steps shrink: it may begin with longer ones
        return ConservingA2DWB(points, nodes, gradients, length * (2 if step is None else 1))
    return A2DWB(points, nodes, gradients, length, naive=method == "a2dwb_naive")


def smoothness(problem: Problem, network: Network) -> float:
    """``L = lambda_max(W) / reg`` of the network's dual; unequal weights raise it by ``1 / (m min w)``."""
    unequal = 1.0 / (network.size * float(problem.weights.min()))
    return max(network.lambda_max, 1e-12) * unequal / problem.reg


def choose_step(step: float | str | None, problem: Problem, network: Network, staleness: int) -> float:
    """The given step, the largest that the theory allows, or the practical default 1/L."""
    if step is None:
        return practical_step(1.0, smoothness(problem, network))
    if step == "theory":
        return theoretical_step(smoothness(problem, network), staleness, network.size)
    return float(read.step("step", step))


def _log_gradients(batch: BatchSize | None, problem: Problem) -> LogGradients:
    """By default all that is known of the measures; what can only be sampled is drawn a little at a time."""
    if batch is None:
        return BestLogGradients(problem, NEW_SAMPLES)
    if isinstance(batch, str) and batch == "exact":
        return ExactLogGradients(problem)
    if isinstance(batch, str | GrowingBatch):
        raise OptionError(f'Sinkhorn takes batch="exact" or a number of new samples an activation, not {batch!r}.')
    return GrowingLogGradients(problem, whole_number("batch", batch, 1))


def _gradients(batch: BatchSize | None, problem: Problem, network: Network) -> Gradients:
    if batch is None:
        batch = FRESH_SAMPLES
    if isinstance(batch, str) and batch == "exact":
        return ExactGradients(problem)
    if isinstance(batch, GrowingBatch):
        return SampledGradients(problem, _growing(batch.epsilon, problem, network))
    size = whole_number("batch", batch, 1)
    return SampledGradients(problem, lambda steps: np.full(steps.size, size, dtype=np.int64))


def _growing(epsilon: float, problem: Problem, network: Network) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    thetas = ThetaSequence(network.size)
    constant = smoothness(problem, network)
    variance = float(network.degrees.sum())

    def sizes(steps: NDArray[np.int64]) -> NDArray[np.int64]:
        return growing_batch(
            thetas.at(steps + 1), epsilon=epsilon, variance=variance, smoothness=constant, blocks=network.size
        )

    sizes(np.zeros(1, dtype=np.int64))
    return sizes
