"""The result of every computation: one type, with the same fields."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import FileError, SupportError
from barymesh.history import History
from barymesh.io.atomic import replacing
from barymesh.io.npz import read_npz
from barymesh.network.topology import Network
from barymesh.status import Status
from barymesh.support.points import Support, grid_values, stored_support

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation

    from barymesh.viz.figure import Figure

Floats = NDArray[np.float64]
FORMAT = 2


# the summary has the times at which the total variation to the true barycenter fell to these levels
LEVELS = (0.1, 0.01, 0.001)


def tv_bound(gap: float, reg: float) -> float:
    """A bound on the total variation to the barycenter of a measure whose objective exceeds the best by ``gap`` at
    most: ``sqrt(gap / (2 reg))``, since the objective is strongly convex with modulus ``reg`` in the L1 norm; NaN if
    the gap is not known."""
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
        The objective ``sum_i w_i W_i(weights)``, from above.
    gap : float
        No measure on the support has an objective below ``value - gap``.
    consensus : float
        How far the nodes' estimates are from the barycenter (mean L1).
    feasibility : float
        How far the duals are from summing to zero.
    reg : float
        The regularisation, in units of the cost.
    method : str
        The method that found it.
    status : Status
        Why it ended.
    iterations : int
        Iterations of the exact solver; 0 on a network.
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

    @property
    def success(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status is Status.CONVERGED

    @property
    def tv_bound(self) -> float:
        """A certified bound on the total variation between ``weights`` and the true barycenter.

        It is ``sqrt(gap / (2 reg))``, since the objective is strongly convex with modulus ``reg`` in the L1 norm.
        """
        return tv_bound(self.gap, self.reg)

    @property
    def node_tv_bounds(self) -> Floats | None:
        """The same from ``node_gaps``, ``(m,)``."""
        return None if self.node_gaps is None else np.array([tv_bound(gap, self.reg) for gap in self.node_gaps])

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
            "measures": int(self.node_weights.shape[0]),
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

    def save(self, path: str | Path) -> Path:
        """Write everything to one ``.npz`` file, replacing an old one only when the new one is complete.

        Parameters
        ----------
        path : path
            Where to; ``.npz`` is added if it is missing.

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
            "reason": self.support.reason,
            "names": self.support.names,
            "grid": grid_values(self.support),
            "network": self.network and [self.network.size, self.network.name],
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
        with replacing(target) as file:
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
            fields: dict[str, Any] = {**arrays, **header}
            return Result(
                support=support.named(names),
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
        n, m = self.weights.size, self.node_weights.shape[0]
        steps = f"{self.activations} activations" if self.network else f"{self.iterations} iterations"
        how = f"gap {self.gap:.2g}, {steps}"
        return f"Result({self.status.name}: barycenter of {m} measures on {n} points, {how})"

    def _repr_html_(self) -> str:
        from barymesh.viz.html import result_as_html

        return result_as_html(self)


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
