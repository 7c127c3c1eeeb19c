"""The result of every computation: one type, with the same fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, whole_number
from barymesh.cost import CostLike
from barymesh.errors import (
    DimensionError,
    OptionError,
    SupportError,
)
from barymesh.history import History
from barymesh.measures.base import draw
from barymesh.metrics import tv_bound
from barymesh.network.topology import Network
from barymesh.problem import Problem
from barymesh.result_measures import coupling_of, known_problem, number_of, with_measures
from barymesh.status import Status
from barymesh.support.points import Support

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation

    from barymesh.transport_map import TransportMap
    from barymesh.viz.figure import Figure

Floats = NDArray[np.float64]
FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Result:
    """A barycenter, its certificate, and how it was computed.

    Attributes
    ----------
    weights : array (n,)
        The barycenter, on ``support.points (n, d)``; positive, with sum 1.
    support : Support
        Where it lives.
    node_weights : array (m, n)
        Every node's own estimate of it.
    duals : array (m, n)
        The potentials behind the estimates.
    value : float
        The objective ``sum_i w_i W_i(weights)``, from above; debiased, less half the cost of moving ``weights`` to
        themselves.
    gap : float
        No measure on the support has an objective below ``value - gap``.
    consensus : float
        How far the nodes' estimates are from the barycenter (mean L1).
    feasibility : float
        How far the duals are from summing to zero; debiased, to the potential of the barycenter's transport to itself,
        on average over its mass.
    reg : float
        The regularisation, in units of the cost.
    objective : str
        What the barycenter minimises: ``"entropic"`` or ``"debiased"``.
    method : str
        The method that found it.
    status : Status
        Why it ended.
    iterations : int
        Iterations of the exact solver on the support, those on coarser points before them not counted; 0 on a network.
    activations : int
        How often nodes of the network have acted, all together; 0 without a network.
    seconds : float
        The time taken.
    history : History
        What happened on the way.
    messages, bytes : int
        What the nodes sent during the run: a message for every link at every activation, or, in rounds, for every link
        over which there is news; and their bytes on the wire. 0 without a network. Copies that a fault or a transport
        makes are not counted.
    recording_seconds : float
        Of ``seconds``, those that went into measuring the history.
    network : Network or None
        The network of the nodes.
    snapshots : array (records, nodes, n) or None
        Estimates of some nodes over time, if ``snapshots`` was set.
    node_errors : array (m,) or None
        Each node's own estimate of its distance from the barycenter (L1), from its data and the messages of its
        neighbours; None where the method has none.
    node_gaps : array (m,) or None
        The certified gap that each node knows, without any data being gathered: the objective of the barycenter that
        the nodes agreed on exceeds the best possible by no more. NaN for a node without one, None if there is none.
    problem : Problem or None
        What was solved: measures, weights, cost. Files and pickles hold no data: ``with_measures`` gives the measures
        again.
    measures : int or None
        How many measures it is the barycenter of, where there is not a row of ``node_weights`` for each: a node of a
        network of organisations has its own row only.

    Examples
    --------
    >>> import numpy as np
    >>> import barymesh as bm
    >>> result = bm.barycenter([bm.Gaussian(0, 1), bm.Gaussian(2, 1)], np.linspace(-4, 6, 101), reg=0.1)
    >>> float(result.support.points[result.weights.argmax(), 0])
    1.0
    >>> result.message
    'Converged: the tolerance was reached.'
    """

    weights: Floats
    support: Support
    node_weights: Floats
    duals: Floats
    value: float
    gap: float
    consensus: float
    feasibility: float
    reg: float
    method: str
    status: Status
    seconds: float
    objective: str = "entropic"
    iterations: int = 0
    activations: int = 0
    history: History = field(default_factory=lambda: History({}))
    messages: int = 0
    bytes: int = 0
    recording_seconds: float = 0.0
    network: Network | None = None
    snapshots: NDArray[np.float32] | None = None
    node_errors: Floats | None = None
    node_gaps: Floats | None = None
    problem: Problem | None = field(default=None, repr=False, compare=False)
    measures: int | None = None

    @property
    def success(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status in (Status.CONVERGED, Status.STATIONARY)

    @property
    def tv_bound(self) -> float:
        """A certified bound on the total variation between ``weights`` and the true barycenter.

        It is ``sqrt(gap / (2 reg))``, since the objective is strongly convex with modulus ``reg`` in the L1 norm. The
        debiased one is not: it hardly changes with the finest details, and the bound is 1.
        """
        return self._tv_bound(self.gap)

    def _tv_bound(self, gap: float) -> float:
        return tv_bound(gap, self.reg, debias=self.objective == "debiased")

    @property
    def node_tv_bounds(self) -> Floats | None:
        """The same from ``node_gaps``, ``(m,)``."""
        return None if self.node_gaps is None else np.array([self._tv_bound(gap) for gap in self.node_gaps])

    @property
    def message(self) -> str:
        """The status as a sentence."""
        return self.status.value

    @property
    def image(self) -> Floats:
        """The weights in the shape of the support's grid."""
        if self.support.grid is None:
            raise SupportError(
                f"{self.support!r} is not a regular grid, so its weights have no shape but ({self.weights.size},). "
                "Use weights, with support.points."
            )
        return self.weights.reshape(self.support.grid.shape)

    @property
    def labels(self) -> tuple[str | None, ...]:
        """What the measures are called, those that have a label."""
        return (
            (None,) * len(self.duals)
            if self.problem is None
            else tuple(measure.label for measure in self.problem.measures)
        )

    def plan(self, measure: int | str, form: str | None = None) -> Any:
        """The transport plan between the barycenter and one of the measures.

        Entry ``(l, k)`` is the mass that moves between point l of the support and point k of the measure, as in a
        matrix of costs. Columns sum to the masses of the measure, rows to ``node_weights[i]``, which is ``weights`` to
        the tolerance. The points of the columns are those of the measure as it was given, or of its quadrature or
        sample: ``problem.atoms_of(i).table``.

        Parameters
        ----------
        measure : int or str
            Its number, or its label.
        form : {"dense", "sparse", "operator"}, optional
            A NumPy array, a ``scipy.sparse.csr_array`` without the entries that together hold less than 1e-9 of the
            mass, or a ``scipy.sparse.linalg.LinearOperator`` that multiplies without writing the plan out. By default
            dense up to four million entries; beyond, an operator between two grids, and sparse elsewhere.

        Returns
        -------
        array, sparse array or LinearOperator (n, N)
            The plan.

        Examples
        --------
        >>> import barymesh as bm
        >>> result = bm.barycenter([bm.Histogram([1, 0, 1]), bm.Histogram([0, 2, 0])], [0.0, 1.0, 2.0], reg=0.1)
        >>> plan = result.plan(0)
        >>> plan.shape, plan.sum(axis=0).round(3)
        ((3, 3), array([0.5, 0. , 0.5]))
        """
        return coupling_of(self, number_of(self, measure)).written(form)

    def map(self, measure: int | str) -> TransportMap:
        """A function that moves points of one of the measures to the barycenter, and back.

        Parameters
        ----------
        measure : int or str
            Its number, or its label.

        Returns
        -------
        TransportMap
            Called with points ``(..., d)``, seen before or not, it returns where they go; its method ``back`` moves
            points of the barycenter to the measure.

        Examples
        --------
        >>> import barymesh as bm
        >>> result = bm.barycenter([bm.Gaussian(-2, 1.0), bm.Gaussian(4, 1.0)], reg=0.05)
        >>> move = result.map(0)
        >>> move([-2.0, -1.0]).round(1)
        array([1., 2.])
        >>> move.back([1.0]).round(1)
        array([-2.])
        """
        from barymesh.transport_map import TransportMap

        number = number_of(self, measure)
        problem = known_problem(self)
        if problem.cost.matrix_given is not None:
            raise OptionError(
                "The cost is a matrix, which has no place for new points. Use result.plan(i), which says where the "
                "points of its columns go."
            )
        find = partial(coupling_of, self, number)
        return TransportMap(self.support, problem.cost, self.reg, self.duals[number], find)

    def cost(self, measure: int | str) -> float:
        """The mean cost of moving a unit of mass between the barycenter and one of the measures, under ``plan``.

        Parameters
        ----------
        measure : int or str
            Its number, or its label.

        Returns
        -------
        float
            ``sum_lk plan[l, k] cost[l, k]``, without the entropy that is part of ``value``.
        """
        return coupling_of(self, number_of(self, measure)).mean_cost()

    def sample(self, size: int, seed: int = 0) -> Floats:
        """Independent draws from the barycenter.

        Parameters
        ----------
        size : int
            How many.
        seed : int, default=0
            Draws with one seed are always the same.

        Returns
        -------
        array (size, d)
            Points of the support.
        """
        count, number = whole_number("size", size, 0), whole_number("seed", seed, 0)
        return draw(self.support.points, self.weights, count, np.random.default_rng(number))

    def mean(self) -> Floats:
        """The mean of the barycenter.

        Returns
        -------
        array (d,)
            Its coordinates.
        """
        return np.asarray(self.weights @ self.support.points)

    def cov(self) -> Floats:
        """The covariance of the barycenter.

        Returns
        -------
        array (d, d)
            Its matrix.
        """
        centred = self.support.points - self.mean()
        return np.asarray((self.weights[:, None] * centred).T @ centred)

    def quantile(self, q: ArrayLike) -> Floats:
        """Quantiles of a barycenter on the line.

        Parameters
        ----------
        q : float or array
            Levels from 0 to 1.

        Returns
        -------
        float or array
            For each level the smallest point of the support such that it and the points below it hold at least that
            share of the mass.
        """
        if self.support.dimension != 1:
            raise DimensionError(
                f"Quantiles are for barycenters on the line; this one has {self.support.dimension} dimensions. Use "
                "those of one coordinate: numpy.quantile(result.sample(10_000)[:, 0], q)."
            )
        levels = as_floats(q, "q", OptionError)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise OptionError(f"q is {q!r}; quantiles have levels from 0 to 1.")
        order = np.argsort(self.support.points[:, 0])
        below = np.cumsum(self.weights[order])
        # rounding of the sum must not push a level over a point
        place = np.searchsorted(below / below[-1], levels * (1.0 - 1e-12))
        return np.asarray(self.support.points[order, 0][place])

    def with_measures(self, measures: Iterable[Any], *, cost: CostLike | None = None) -> Result:
        """The same result, with its measures: for ``plan``, ``map`` and ``cost`` of a result from a file or a pickle,
        which hold no data, and of one whose measures stayed with the nodes of a network.

        Parameters
        ----------
        measures : list or array
            As for ``barycenter``, in the same order; in a list None for one that is not at hand.
        cost : str, function or array, optional
            That of the result, if it is a function or a matrix; others are known.

        Returns
        -------
        Result
            With ``problem.measures``.
        """
        return with_measures(self, measures, cost)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles hold no data of the measures, as files do not."""
        return {**self.__dict__, "problem": self.problem and self.problem.without_data()}

    def __copy__(self) -> Result:
        return replace(self)

    def plot(self, *, inputs: bool = True) -> Figure:
        """A figure of the barycenter: a curve in 1-D, a picture on a grid, dots at other points. Beyond two dimensions
        it shows the first three coordinates, two at a time.

        Parameters
        ----------
        inputs : bool, default=True
            Whether a picture on a 2-D grid has up to eight of the measures beside it: images, and histograms on a grid.
            Results from files do not know them; ``with_measures`` gives them again.

        Returns
        -------
        matplotlib.figure.Figure
            Not shown yet; ``figure.savefig("mean.png")`` writes it.
        """
        from barymesh.viz.plots import plot_result

        return plot_result(self, inputs=inputs)

    def animate(self, path: str | Path | None = None, *, frames: int | None = None, fps: int = 10) -> FuncAnimation:
        """The nodes of the network coming to agree, from ``snapshots``.

        Parameters
        ----------
        path : path, optional
            Where to write it: .gif, .html, or .mp4, which needs ffmpeg.
        frames : int, optional
            Pictures in all, evenly spaced; by default all records, but at most 200.
        fps : int, default=10
            Pictures a second.

        Returns
        -------
        matplotlib.animation.FuncAnimation
            The animation; a notebook shows ``animation.to_jshtml()``.
        """
        from barymesh.viz.animation import animate, saved

        return saved(lambda: animate(self, frames=frames, fps=fps), path, fps)

    def summary(self) -> dict[str, Any]:
        """The numbers of the result as plain Python values.

        For a run on a network also the ``time`` of its last record, and with a reference the ``tv`` and the
        ``dual_error`` of that record; and ``until``, the time, messages and bytes it took until ``tv`` was down to some
        levels, where it was.

        Returns
        -------
        dict
            Ready for ``json.dumps``.
        """
        from barymesh.summary import summary

        return summary(self)

    def save(self, path: str | Path, *, private: bool = False) -> Path:
        """Write everything to one ``.npz`` file, replacing an old one only when the new one is complete.

        Parameters
        ----------
        path : path
            Where to; ``.npz`` is added if it is missing.
        private : bool, default=False
            Whether only its owner may read the file: ``duals`` tell much about the measures.

        Returns
        -------
        pathlib.Path
            The file written.
        """
        from barymesh.result_file import save

        return save(self, Path(path), private=private)

    @staticmethod
    def load(path: str | Path) -> Result:
        """Read what ``save`` wrote; also called ``barymesh.load``.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Result
            The same as was saved.
        """
        from barymesh.result_file import load

        return load(Path(path))

    def __repr__(self) -> str:
        n, m = self.weights.size, self.measures or self.node_weights.shape[0]
        steps = f"{self.activations} activations" if self.activations else f"{self.iterations} iterations"
        how = f"gap {'unknown' if np.isnan(self.gap) else f'{self.gap:.2g}'}, {steps}"
        return f"Result({self.status.name}: barycenter of {m} measures on {n} points, {how})"

    def _repr_html_(self) -> str:
        from barymesh.viz.html import result_as_html

        return result_as_html(self)
