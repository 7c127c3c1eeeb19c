"""The record that callbacks are called with: one type for the solver and for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from barymesh.network.topology import Network
from barymesh.support.points import Support

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class NodeState(StrEnum):
    """What a node is doing. The values are shown to users."""

    STARTING = "starting"
    WORKING = "working"
    WAITING = "waiting"
    CONVERGED = "converged"
    ASLEEP = "asleep"
    STUCK = "stuck"
    CUT_OFF = "cut off"
    DEAD = "dead"
    ENDED = "ended"
    LEFT = "not taking part"
    ELSEWHERE = "on another machine"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class TreePlaces:
    """Where nodes are in the spanning tree that adds up their reports.

    Attributes
    ----------
    parents : array (m,)
        The number of each node's parent; its own for a root.
    epochs : array (m,)
        The tree that each node is in: a new one, with a larger whole part, begins when nodes come, leave or fail.
    rounds : array (m,) of bool
        Whether the node works in rounds: once for each target, all together.
    masked : array (m,) of bool
        Whether what the node reports is masked, so that only the sum over all nodes can be read.
    """

    parents: Indices
    epochs: Floats
    rounds: NDArray[np.bool_]
    masked: NDArray[np.bool_]


@dataclass(frozen=True)
class NodeDetails:
    """The nodes of a network one by one, for pictures.

    Attributes
    ----------
    states : array (m,)
        What each node is doing, as ``NodeState``.
    staleness : array (links,) or None
        Seconds since the message that a node last received over each directed link was sent; None where that is
        unknown.
    gaps : array (m,)
        The certified gap that each node knows; NaN where it knows none.
    tree : TreePlaces or None
        Where the nodes are in the tree; None for methods that have none.
    """

    states: NDArray[np.object_]
    staleness: Floats | None
    gaps: Floats
    tree: TreePlaces | None = None


@dataclass(frozen=True)
class Record:
    """What a callback sees after an iteration of the solver, or at a record of a run on a network.

    Attributes
    ----------
    step : int
        Iterations of the solver; activations of all nodes on a network.
    time : float
        Seconds since the start, virtual in a simulation.
    figures : mapping of str to float
        The row of the history that belongs to it, by name; figures that are not known are left out.
    weights : array (n,)
        The barycenter so far.
    support : Support
        Where it lives.
    size : int
        The number of measures, m.
    network : Network or None
        The network of the nodes.
    virtual : bool
        Whether the time is virtual.

    Examples
    --------
    >>> import barymesh as bm
    >>> seen = []
    >>> result = bm.barycenter([bm.Gaussian(0, 1), bm.Gaussian(2, 1)], reg=0.1, callback=seen.append)
    >>> seen[-1].step == result.iterations, seen[-1].figures["consensus"] < 1e-6
    (True, True)
    """

    step: int
    time: float
    figures: Mapping[str, float]
    weights: Floats
    support: Support
    size: int
    find_estimates: Callable[[Indices], Floats] = field(repr=False)
    network: Network | None = None
    virtual: bool = False
    find_details: Callable[[], NodeDetails] | None = field(default=None, repr=False)

    def estimates(self, nodes: Indices) -> Floats:
        """The own estimates of some measures, as they are now; to be called within the callback.

        Parameters
        ----------
        nodes : array (k,)
            The numbers of the measures.

        Returns
        -------
        array (k, n)
            A row for each.
        """
        return self.find_estimates(nodes)

    @cached_property
    def details(self) -> NodeDetails | None:
        """The nodes one by one, as they are now; None without a network."""
        return None if self.find_details is None else self.find_details()


Callback = Callable[[Record], bool | None]
