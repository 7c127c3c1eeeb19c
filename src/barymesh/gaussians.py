"""The Wasserstein barycenter of Gaussians in closed form, on one machine or on a simulated network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from barymesh.errors import DimensionError, MeasureError, NetworkError, NumericalError, OptionError
from barymesh.measures import Empirical, Gaussian, Mixture
from barymesh.methods.bures import Bures
from barymesh.problem import Problem
from barymesh.problem_input import checked_weights

MOST_STEPS = 1000


def gaussian_barycenter(
    measures: Sequence[Gaussian | Mixture], weights: ArrayLike | None = None, *, network: Any = None,
    tol: float = 1e-10, duration: float = 10_000.0, seed: int = 0, masks: bool = False, reach: float | None = None,
) -> Gaussian:  # fmt: skip
    """The barycenter of Gaussians without any regularisation or support: a Gaussian too.

    Its mean is the average of the means; its covariance is found by a fixed-point iteration in the Bures metric, in any
    dimension. A mixture counts as the Gaussian with its mean and covariance, so the result is
    then the barycenter of these Gaussians, not of the mixtures.

    Parameters
    ----------
    measures : list of Gaussian or Mixture
        Whose barycenter.
    weights : array (m,), optional
        Importance of each measure; uniform by default.
    network : str, Network, graph, array or path, optional
        As in ``barymesh.barycenter``: the nodes find it together, in rounds over a spanning tree, by sums of
        ``d + d^2`` numbers, in a simulation.
    tol : float, default=1e-10
        Stop once the covariance changes by this share of its size.
    duration : float, default=10000
        Virtual seconds that the network may take.
    seed : int, default=0
        Of the network and its delays.
    masks : bool, default=False
        Whether the nodes mask what they report, so that nobody can read anything but the sum over all of them.
    reach : float, optional
        For masks: no mean has a larger coordinate, and no deviation is larger.

    Returns
    -------
    Gaussian
        The barycenter.

    Examples
    --------
    >>> import barymesh as bm
    >>> mean = bm.gaussian_barycenter([bm.Gaussian(0, 1), bm.Gaussian(4, 3)])
    >>> float(mean.mean[0]), round(float(mean.cov[0, 0]), 9)
    (2.0, 4.0)
    """
    gaussians = [_as_gaussian(k, measure) for k, measure in enumerate(measures)]
    if not gaussians:
        raise MeasureError("There are no measures: give at least one Gaussian.")
    for k, one in enumerate(gaussians):
        if one.dimension != gaussians[0].dimension:
            raise DimensionError(
                f"Measure {k} lives in {one.dimension} dimensions, measure 0 in {gaussians[0].dimension}. They must "
                "agree."
            )
    if masks and (network is None or reach is None):
        raise OptionError(
            "masks hide what the nodes of a network report, in fixed point: give a network, and reach, which no mean "
            "and no deviation exceeds."
        )
    shares, method = checked_weights(weights, list(measures)), Bures(gaussians, reach)
    if network is not None:
        return _decentralised(method, shares, network, tol, duration, seed, masks)
    state, rows = method.start(len(gaussians)), np.arange(len(gaussians))
    known = np.ones(rows.size, dtype=bool)
    answer = method.order(state, 0, shares @ state.part, None, 1.0, 0.0, lambda left: left <= tol)
    for _ in range(MOST_STEPS):
        targets = np.broadcast_to(answer.target, (rows.size, method.down))
        average = shares @ method.respond(state, rows, targets, known, known).parts[0]
        answer = method.order(state, 0, average, answer.target, 1.0, 0.0, lambda left: left <= tol)
        if answer.finished:
            return Gaussian(answer.target[: method.d], cov=method.covariance(answer.target))
    raise NumericalError(
        f"The covariance still changed by more than tol={tol:g} of its size after {MOST_STEPS} steps. Give "
        "a larger tol."
    )


def _decentralised(
    method: Bures, weights: Any, network: Any, tol: float, duration: float, seed: int, masks: bool
) -> Gaussian:
    """The same by nodes that know their own Gaussian only."""
    from barymesh.decentralized.algorithm import Nodes
    from barymesh.decentralized.tree import SpanningTree
    from barymesh.engines.recorder import Recorder
    from barymesh.engines.simulation import AsynchronousSimulation
    from barymesh.network import as_network
    from barymesh.scenario.delays import Categorical
    from barymesh.scenario.faults import fault_table
    from barymesh.scenario.schedules import Windowed
    from barymesh.status import Status

    graph = as_network(network, len(method.gaussians), seed)
    hidden = None
    if masks:
        # the package that it needs is optional
        from barymesh.decentralized.masks.streams import Masks

        hidden = Masks.of_one_owner(graph.size, seed, method.name)
    algorithm = SpanningTree(method, Nodes.all_of(graph, weights), tol, hidden)
    # a simulation records the estimates of a problem; here there is nothing to record
    nothing = Problem.create([Empirical([[0.0]])] * graph.size, np.zeros((1, 1)), reg=1.0, weights=weights)
    simulation = AsynchronousSimulation(
        algorithm, Recorder(nothing, graph), schedule=Windowed(), delays=Categorical(), faults=fault_table([], graph),
        seed=seed, record_every=duration, until=duration,
    )  # fmt: skip
    if simulation.run(duration) is not Status.CONVERGED:
        raise NetworkError(f"The nodes did not agree within the duration of {duration:g} s. Give a longer one.")
    found = simulation.state.target[0]
    return Gaussian(found[: method.d], cov=method.covariance(found))


def _as_gaussian(position: int, measure: Any) -> Gaussian:
    if isinstance(measure, Gaussian):
        return measure
    if isinstance(measure, Mixture):
        parts = [_as_gaussian(position, part) for part in measure.components]
        means, shares = np.array([part.mean for part in parts]), measure.weights
        centre = shares @ means
        spread = (shares[:, None] * (means - centre)).T @ (means - centre)
        return Gaussian(centre, cov=spread + np.tensordot(shares, [part.cov for part in parts], 1))
    raise MeasureError(
        f"Measure {position} is a {type(measure).__name__}; gaussian_barycenter takes Gaussians and mixtures of these. "
        "For other measures use barycenter, with a FreeSupport."
    )
