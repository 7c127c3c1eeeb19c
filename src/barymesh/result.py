"""The result of every computation: one type, with the same fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, whole_number
from barymesh.cost import Cost, CostLike
from barymesh.errors import (
    AccuracyWarning,
    BarymeshError,
    DimensionError,
    FileError,
    MeasureError,
    OptionError,
    SupportError,
    warn,
)
from barymesh.history import History
from barymesh.io.atomic import replacing
from barymesh.io.npz import read_npz
from barymesh.measures.absent import Absent, absent_cost
from barymesh.measures.base import draw
from barymesh.measures.lazy import Lazy
from barymesh.network.topology import Network
from barymesh.problem import Problem, measures_on
from barymesh.status import Status
from barymesh.support.points import Support, grid_values, stored_support

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation

    from barymesh.coupling import Coupling
    from barymesh.transport_map import TransportMap
    from barymesh.viz.figure import Figure

Floats = NDArray[np.float64]
FORMAT = 2


# the summary has the times at which the total variation to the true barycenter fell to these levels
LEVELS = (0.1, 0.01, 0.001)
# plans with more entries are not written out, unless that is asked for
DENSE_ENTRIES = 2**22
FORMS = ("dense", "sparse", "operator")
# measures given again whose estimates are farther from those kept (L1) are probably others
OTHER_MEASURES = 0.02


def tv_bound(gap: float, reg: float, *, debias: bool = False) -> float:
    """A bound on the total variation to the barycenter of a measure whose objective exceeds the best by ``gap`` at
    most: ``sqrt(gap / (2 reg))``, since the objective is strongly convex with modulus ``reg`` in the L1 norm; NaN if
    the gap is not known. The debiased objective is not, and the bound is 1."""
    if debias:
        return 1.0 if gap == gap else np.nan
    return float(np.fmin(1.0, np.sqrt(max(gap, 0.0) / (2.0 * reg)))) if gap == gap else np.nan


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
    'Converged: the nodes agree to the tolerance.'
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
        coupling = self._coupling(self._number(measure))
        if form is not None and form not in FORMS:
            raise OptionError(f"form is {form!r}; choose one of {', '.join(FORMS)}, or leave it out.")
        if form is None:
            large = np.prod(coupling.shape, dtype=float) > DENSE_ENTRIES
            form = "dense" if not large else "operator" if coupling.on_grids else "sparse"
        match form:
            case "dense":
                return coupling.dense()
            case "sparse":
                return coupling.sparse()
            case _:
                return coupling.operator()

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

        number = self._number(measure)
        problem = self._known_problem()
        if problem.cost.matrix_given is not None:
            raise OptionError(
                "The cost is a matrix, which has no place for new points. Use result.plan(i), which says where the "
                "points of its columns go."
            )
        find = partial(self._coupling, number)
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
        return self._coupling(self._number(measure)).mean_cost()

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
        measures : list
            As for ``barycenter``, in the same order; None for one that is not at hand.
        cost : str, function or array, optional
            That of the result, if it is a function or a matrix; others are known.

        Returns
        -------
        Result
            With ``problem.measures``.
        """
        known = self._known_problem()
        given = list(measures)
        if len(given) != len(self.duals):
            raise MeasureError(
                f"The result is a barycenter of {len(self.duals)} measures, and {len(given)} were given. Give all in "
                "their order, with None for those that are not at hand."
            )
        labelled = [Absent(label) if one is None else one for one, label in zip(given, self.labels, strict=True)]
        moving = known.cost if cost is None else Cost(cost)
        problem = replace(known, measures=measures_on(self.support, moving, labelled), cost=moving)
        result = replace(self, problem=problem)
        for i, measure in enumerate(problem.measures):
            if not isinstance(measure, Absent):
                apart = float(np.abs(result._coupling(i).row_sums() - self.node_weights[i]).sum())
                if apart > OTHER_MEASURES:
                    warn(
                        f"With measure {i} the potentials of the result give an estimate at an L1 distance of "
                        f"{apart:.2g} from the one it has. Give the measures in the order, and with the cost, with "
                        "which it was computed.",
                        AccuracyWarning,
                    )
        return result

    def _number(self, measure: int | str) -> int:
        count = len(self.duals)
        if isinstance(measure, str):
            known = [label for label in self.labels if label is not None]
            if known.count(measure) != 1:
                raise MeasureError(
                    f"{known.count(measure) or 'No'} measures are called {measure!r}. "
                    + (f"Their labels are {', '.join(known)}." if known else "They have no labels; give a number.")
                )
            return self.labels.index(measure)
        number = whole_number("The number of a measure", measure)
        if not -count <= number < count:
            raise MeasureError(f"There is no measure {number}: the result has {count}, numbered from 0.")
        return number % count

    def _known_problem(self) -> Problem:
        if self.problem is None:
            raise MeasureError(
                "This result does not know its problem: it was written by an older version, or found without one. "
                "Compute it again, with barymesh.barycenter(..., start=result)."
            )
        return self.problem

    def _coupling(self, number: int) -> Coupling:
        from barymesh.coupling import Coupling

        problem = self._known_problem()
        if isinstance(problem.measures[number], Lazy):
            raise MeasureError(
                f"Measure {number}: {problem.measures[number]!r} stayed with its node. Where it is at hand, use "
                "result.with_measures([...]), with None for the others."
            )
        try:
            atoms = problem.atoms_of(number)
        except BarymeshError as error:
            raise type(error)(f"Measure {number}: {error}") from error
        return Coupling(atoms, self.support, problem.cost, self.reg, self.duals[number])

    def __getstate__(self) -> dict[str, Any]:
        """Pickles hold no data of the measures, as files do not."""
        return {**self.__dict__, "problem": self.problem and self.problem.without_data()}

    def __copy__(self) -> Result:
        return replace(self)

    def plot(self) -> Figure:
        """A figure of the barycenter: a curve in 1-D, a picture on a 2-D grid, else a cloud of points.

        Returns
        -------
        matplotlib.figure.Figure
            Not shown yet; ``figure.savefig("mean.png")`` writes it.
        """
        from barymesh.viz.plots import plot_result

        return plot_result(self)

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
        from barymesh.viz.animation import animate, check_kind, save_animation

        if path is not None:
            check_kind(Path(path))
        animation = animate(self, frames=frames, fps=fps)
        if path is not None:
            save_animation(animation, Path(path), fps)
        return animation

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
        return {
            "status": self.status.name,
            "message": self.message,
            "success": self.success,
            "method": self.method,
            "objective": self.objective,
            "measures": self.measures or int(self.node_weights.shape[0]),
            "support": repr(self.support),
            "support_reason": self.support.reason,
            "reg": self.reg,
            "value": self.value,
            "gap": self.gap,
            "tv_bound": self.tv_bound,
            "consensus": self.consensus,
            "feasibility": self.feasibility,
            "iterations": self.iterations,
            "activations": self.activations,
            "seconds": self.seconds,
            "recording_seconds": self.recording_seconds,
            "messages": self.messages,
            "bytes": self.bytes,
            **self._network_summary(),
        }

    def _network_summary(self) -> dict[str, Any]:
        if self.network is None:
            return {}
        ends: dict[str, float] = {
            name: float(self.history[name][-1])
            for name in ("time", "tv", "dual_error")
            if name in self.history.columns and len(self.history)
        }
        known = {name: value for name, value in ends.items() if np.isfinite(value)}
        return {"network": repr(self.network), **known, **({"until": self._until()} if "tv" in known else {})}

    def _until(self) -> dict[str, dict[str, float] | None]:
        columns = ("time", "messages", "bytes")
        found: dict[str, dict[str, float] | None] = {}
        for level in LEVELS:
            there = np.flatnonzero(self.history["tv"] <= level)
            row = {name: float(self.history[name][there[0]]) for name in columns} if there.size else None
            found[f"{level:g}"] = row
        return found

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
        target = Path(path)
        if target.suffix != ".npz":
            target = target.with_name(target.name + ".npz")
        header = {
            "format": FORMAT,
            "status": self.status.name,
            "method": self.method,
            "objective": self.objective,
            "reason": self.support.reason,
            "names": self.support.names,
            "grid": grid_values(self.support),
            "network": self.network and [self.network.size, self.network.name],
            "problem": self.problem and _problem_values(self.problem),
            "measures": self.measures,
        }
        numbers = {
            name: getattr(self, name)
            for name in (
                "value",
                "gap",
                "consensus",
                "feasibility",
                "reg",
                "iterations",
                "activations",
                "seconds",
                "recording_seconds",
                "messages",
                "bytes",
            )
        }
        columns = {f"history_{name}": column for name, column in self.history.columns.items()}
        optional = {"snapshots": self.snapshots, "node_errors": self.node_errors, "node_gaps": self.node_gaps}
        extra = {name: array for name, array in optional.items() if array is not None}
        with replacing(target, private=private) as file:
            np.savez_compressed(
                file,
                header=np.array(json.dumps({**header, **numbers})),
                weights=self.weights,
                points=self.support.points,
                node_weights=self.node_weights,
                duals=self.duals,
                **_network_arrays(self.network),  # type: ignore[arg-type]
                **extra,  # type: ignore[arg-type]
                **columns,  # type: ignore[arg-type]
            )
        return target

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
        try:
            arrays: dict[str, Any] = read_npz(Path(path))
            header = json.loads(str(arrays.pop("header")))
            version, grid, reason = header.pop("format"), header.pop("grid"), header.pop("reason")
            names = header.pop("names", None)
            if version != FORMAT:
                raise FileError(
                    f"{path} has result format {version}; this version of barymesh reads format {FORMAT}. "
                    "Read it with the version that wrote it."
                )
            points = arrays.pop("points")
            support = stored_support(grid, points, reason=reason)
            network = header.pop("network", None)
            links = {name: arrays.pop(name) for name in list(arrays) if name.startswith("network_")}
            history = {name: arrays.pop(name) for name in list(arrays) if name.startswith("history_")}
            status = Status[header.pop("status")]
            problem = header.pop("problem", None)
            fields: dict[str, Any] = {**arrays, **header}
            support = support.named(names)
            return Result(
                support=support,
                problem=problem and _stored_problem(problem, support, header["reg"]),
                status=status,
                network=network and _stored_network(network, links),
                history=History({name.removeprefix("history_"): column for name, column in history.items()}),
                **fields,
            )
        except FileNotFoundError as error:
            raise FileError(
                f"There is no file {path}. Name one that Result.save wrote; on the command line, begin without resume."
            ) from error
        except FileError:
            raise
        except Exception as error:  # zipfile, zlib, json and missing or unknown fields share no base
            raise FileError(
                f"{path} is damaged, not a result of barymesh, or may not be opened ({error}). Get it from a copy, or "
                "compute it again."
            ) from error

    def __repr__(self) -> str:
        n, m = self.weights.size, self.measures or self.node_weights.shape[0]
        steps = f"{self.activations} activations" if self.activations else f"{self.iterations} iterations"
        how = f"gap {'unknown' if np.isnan(self.gap) else f'{self.gap:.2g}'}, {steps}"
        return f"Result({self.status.name}: barycenter of {m} measures on {n} points, {how})"

    def _repr_html_(self) -> str:
        from barymesh.viz.html import result_as_html

        return result_as_html(self)


def _problem_values(problem: Problem) -> dict[str, Any]:
    """What a file keeps of a problem: everything but data."""
    kept = problem.without_data()
    return {
        "weights": kept.weights.tolist(),
        "cost": kept.cost.name if kept.cost.function is None else None,
        "labels": [measure.label for measure in kept.measures],
        "seed": kept.seed,
        "samples": kept.samples,
        "precision": kept.precision,
    }


def _stored_problem(values: dict[str, Any], support: Support, reg: float) -> Problem:
    labels, cost, weights = values.pop("labels"), values.pop("cost"), values.pop("weights")
    return Problem(
        measures=[Absent(label) for label in labels],
        support=support,
        cost=Cost(absent_cost if cost is None else cost),
        reg=reg,
        weights=np.array(weights, dtype=float),
        **values,
    )


def _network_arrays(network: Network | None) -> dict[str, NDArray[Any]]:
    """The arrays of a network, beside its size and name; the positions of its nodes only if they are known already."""
    if network is None:
        return {}
    arrays = {"edges": network.edges, "weights": network.weights, "positions": network.known_positions}
    return {f"network_{name}": array for name, array in arrays.items() if array is not None}


def _stored_network(size_and_name: tuple[int, str], links: dict[str, NDArray[Any]]) -> Network:
    size, name = size_and_name
    parts = {part.removeprefix("network_"): array for part, array in links.items()}
    return Network(size, parts.pop("edges"), name=name, connected=False, **parts)
