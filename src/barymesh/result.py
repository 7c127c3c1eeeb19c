"""One result type, whatever ran: the same fields, always."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import FileError
from barymesh.grid import Grid
from barymesh.history import History
from barymesh.network.topology import Network
from barymesh.safe_write import replacing
from barymesh.status import Status
from barymesh.support import Support

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
FORMAT = 1


# total variations to the true barycenter whose times are told
LEVELS = (0.1, 0.01, 0.001)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A barycenter and everything that tells how far to trust it.

    ``weights (n,)``: the barycenter, on ``support.points (n, d)``. ``node_weights (m, n)``: every node's own estimate.
    ``duals (m, n)``: the potentials behind it. ``value``: the objective ``sum_i w_i W_i(weights)``, certified to be
    within ``gap`` of the best there is. ``consensus``: how far the nodes' estimates are from the barycenter (mean L1).
    ``feasibility``: how far the duals are from summing to zero. ``messages`` and ``bytes``: what the network carried (0
    without a network). ``seconds``: the time taken, of which ``recording_seconds`` went into measuring the history.
    ``network``: who talked to whom; ``snapshots (records, nodes, n)``: estimates of some nodes over time, if asked for.
    ``node_errors (m,)``: how far each node of the network believed to be from the barycenter (L1), from what it and its
    neighbours knew, without anybody who knows everything; None where nodes cannot tell.
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
    iterations: int
    seconds: float
    history: History = field(default_factory=lambda: History({}))
    messages: int = 0
    bytes: int = 0
    recording_seconds: float = 0.0
    network: Network | None = None
    snapshots: NDArray[np.float32] | None = None
    node_errors: Floats | None = None

    @property
    def success(self) -> bool:
        """Whether the tolerance asked for was reached, or the duration asked for was run."""
        return self.status in (Status.CONVERGED, Status.FINISHED)

    @property
    def tv_bound(self) -> float:
        """A certified bound on the total variation between ``weights`` and the true barycenter: ``sqrt(gap / (2
        reg))``, since the objective is strongly convex with modulus ``reg`` in the L1 norm."""
        return float(min(1.0, np.sqrt(max(self.gap, 0.0) / (2 * self.reg))))

    @property
    def message(self) -> str:
        """The status as a sentence."""
        return self.status.value

    @property
    def image(self) -> Floats:
        """The weights in the shape of the support's grid."""
        if self.support.grid is None:
            raise ValueError("The support is not a regular grid, so the weights have no shape but (n,).")
        return self.weights.reshape(self.support.grid.shape)

    def plot(self) -> Figure:
        """A figure of the barycenter: a curve in 1-D, a picture on a 2-D grid, else a cloud of points."""
        from barymesh.report.plots import plot_result

        return plot_result(self)

    def animate(self, path: str | Path | None = None, *, frames: int | None = None, fps: int = 10) -> FuncAnimation:
        """The nodes of the network coming to agree, from ``snapshots``.

        With a ``path`` ending in .gif, .html or .mp4 (which needs ffmpeg) it is written there too. ``frames``: pictures
        in all, evenly picked (all records, but at most 200); ``fps``: pictures a second.
        """
        from barymesh.report.animation import animate, check_kind, save_animation

        if path is not None:
            check_kind(Path(path))
        animation = animate(self, frames=frames, fps=fps)
        if path is not None:
            save_animation(animation, Path(path), fps)
        return animation

    def summary(self) -> dict[str, Any]:
        """The numbers of the result as plain Python values.

        For a run on a network also the last row of its history: ``virtual_seconds``, and with a reference ``tv`` and
        ``dual_gap``, the dual objective minus the optimum; and ``until``, the time, messages and bytes it took until
        ``tv`` was down to some levels, where it was.
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
            "seconds": self.seconds,
            "recording_seconds": self.recording_seconds,
            "messages": self.messages,
            "bytes": self.bytes,
            **self._network_summary(),
        }

    def _network_summary(self) -> dict[str, Any]:
        if self.network is None:
            return {}
        names = {"time": "virtual_seconds", "tv": "tv", "gap": "dual_gap"}
        ends = {
            name: float(self.history[column][-1])
            for column, name in names.items()
            if column in self.history.columns and len(self.history)
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
        """Write everything to one ``.npz`` file, replacing an old one only when the new one is complete."""
        target = Path(path)
        if target.suffix != ".npz":
            target = target.with_name(target.name + ".npz")
        grid = self.support.grid
        header = {
            "format": FORMAT,
            "status": self.status.name,
            "method": self.method,
            "reason": self.support.reason,
            "grid": grid and [grid.shape, grid.lower, grid.upper],
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
                "seconds",
                "recording_seconds",
                "messages",
                "bytes",
            )
        }
        columns = {f"history_{name}": column for name, column in self.history.columns.items()}
        optional = {"snapshots": self.snapshots, "node_errors": self.node_errors}
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
        """Read what ``save`` wrote."""
        try:
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            header = json.loads(str(arrays.pop("header")))
            version, grid, reason = header.pop("format"), header.pop("grid"), header.pop("reason")
            if version != FORMAT:
                raise FileError(f"{path} has result format {version}; this version of barymesh reads format {FORMAT}.")
            points = arrays.pop("points")
            support = (
                Support.of_grid(Grid(*map(tuple, grid)), reason=reason) if grid else Support(points, reason=reason)
            )
            who = header.pop("network", None)
            links = {name: arrays.pop(name) for name in list(arrays) if name.startswith("network_")}
            history = {name: arrays.pop(name) for name in list(arrays) if name.startswith("history_")}
            return Result(
                support=support,
                status=Status[header.pop("status")],
                network=who and _stored_network(who, links),
                history=History({name.removeprefix("history_"): column for name, column in history.items()}),
                **arrays,
                **header,
            )
        except FileNotFoundError as error:
            raise FileError(f"There is no file {path}.") from error
        except FileError:
            raise
        except Exception as error:  # zipfile, zlib, json and missing or unknown fields share no base
            raise FileError(f"{path} is damaged, or not a result of barymesh ({error}).") from error

    def __repr__(self) -> str:
        n, m = self.weights.size, self.node_weights.shape[0]
        how = f"gap {self.gap:.2g}, {self.iterations} iterations"
        return f"Result({self.status.name}: barycenter of {m} measures on {n} points, {how})"

    def _repr_html_(self) -> str:
        from barymesh.report.html import result_as_html

        return result_as_html(self)


def _network_arrays(network: Network | None) -> dict[str, NDArray[Any]]:
    """What tells a network apart from its size and name; where its nodes are drawn only if that is known already."""
    if network is None:
        return {}
    arrays = {"edges": network.edges, "weights": network.weights, "positions": network.known_positions}
    return {f"network_{name}": array for name, array in arrays.items() if array is not None}


def _stored_network(size_and_name: tuple[int, str], links: dict[str, NDArray[Any]]) -> Network:
    size, name = size_and_name
    parts = {part.removeprefix("network_"): array for part, array in links.items()}
    return Network(size, parts.pop("edges"), name=name, **parts)
