"""The file ``live.npz``, which a run keeps in its folder while it is running, for the dashboard."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from barymesh.dashboard.scene import MOST_EDGES, MOST_NODES, thinned
from barymesh.errors import FileError
from barymesh.io.atomic import replacing
from barymesh.metrics import total_variations
from barymesh.record import NodeState
from barymesh.subsample import MOST_PICTURED, evenly
from barymesh.support.points import grid_values

if TYPE_CHECKING:
    from barymesh.network.topology import Network
    from barymesh.record import Record
    from barymesh.support.points import Support

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

LIVE = "live.npz"
FORMAT = 1
# estimates in the file: of no more than so many numbers in all
MOST_NUMBERS = 500_000
# arrays that are only looked at: half the bytes, and more digits than can be seen
SEEN_ONLY = ("mean", "estimates", "errors", "staleness")
# the file takes at most this share of the run's time, unless it is wanted all the time
SHARE = 0.02


class LiveFile:
    """A callback that keeps ``live.npz`` in a folder up to date during a run, and removes it at the end.

    If the file cannot be written, the run continues without it.

    Parameters
    ----------
    folder
        Where the run will leave its results.
    method
        What runs, for the title of the page.
    until
        How long the run is meant to last, in its own seconds or iterations.
    every
        Seconds between two versions of the file, at least; 0 for one after every record or iteration.

    Examples
    --------
    >>> with LiveFile("out") as live:                                             # doctest: +SKIP
    ...     result = barymesh.barycenter(measures, reg=0.1, network="cycle", callback=live)
    ...     result.save("out/result.npz")
    """

    def __init__(self, folder: str | Path, method: str = "", until: float | None = None, every: float = 1.0) -> None:
        self.path = Path(folder) / LIVE
        self.written = 0
        self.seconds = 0.0
        self._about = {"format": FORMAT, "pid": os.getpid(), "host": socket.gethostname(), "until": until}
        self._method, self._every, self._due = method, every, 0.0
        self._made: list[Path] = []
        self._rows: list[dict[str, float]] = []

    def __enter__(self) -> Self:
        # folders that are made for it, the innermost first
        self._made = [folder for folder in self.path.parents if not folder.exists()]
        self.announce("starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The run is over: remove the file, and the folders made for it if they are empty."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def announce(self, phase: str) -> None:
        """Write that there are no data yet, and why: "starting", or "waiting" for another run to end."""
        self._write({"phase": phase, "method": self._method}, {})

    def __call__(self, record: Record) -> None:
        """Write the record, unless the last one was written a moment ago."""
        # every one of them, although few are written
        self._rows.append(dict(record.figures))
        now = time.monotonic()
        if now < self._due:
            return
        facts, arrays = _of_record(record)
        columns = {name: np.array([row.get(name, np.nan) for row in self._rows]) for name in self._rows[0]}
        self._write({"phase": "running", "method": self._method, **facts}, {**arrays, **_history(columns)})
        took = time.monotonic() - now
        self.seconds += took
        self._due = now + (max(self._every, took / SHARE) if self._every else 0.0)

    def _write(self, facts: dict[str, Any], arrays: Arrays) -> None:
        small = {name: array.astype(np.float32) if name in SEEN_ONLY else array for name, array in arrays.items()}
        try:
            with replacing(self.path) as file:
                header: Any = np.array(json.dumps({**self._about, **facts}))
                np.savez(file, header=header, **small)  # type: ignore[arg-type]
            self.written += 1
        except FileError:
            # no result depends on it, and a disk that is full now may have room later
            pass


def _of_record(record: Record) -> tuple[dict[str, Any], Arrays]:
    """What there is to see at a record: facts, and arrays."""
    support, network = record.support, record.network
    chosen = _pictured(record.size, support.size)
    facts = {"now": record.step, "size": record.size, "clock": "iterations", "grid": grid_values(support)}
    arrays = {"mean": record.weights, "estimates": record.estimates(chosen), "pictured": chosen, **_points(support)}
    if network is None or record.details is None:
        return facts, arrays
    counts = {name: int(record.figures[name]) for name in ("activations", "messages", "bytes")}
    facts |= {
        "clock": "time", "virtual": record.virtual, "now": record.time, "links": len(network.edges),
        "network": network.name, **counts,
    }  # fmt: skip
    states, shown = record.details.states, evenly(network.size, MOST_NODES)
    errors = total_variations(record.estimates(shown), record.weights)
    return facts, {
        **arrays,
        "shown": shown,
        "errors": np.where(states[shown] != NodeState.LEFT, errors, np.nan),
        "states": states[shown].astype(str),
        **_edges(network, record.details.staleness),
    }


def _edges(network: Network, staleness: Floats | None) -> Arrays:
    """Edges to be drawn, and the staleness of each: that of its worse direction."""
    if network.size > MOST_NODES:
        return {}
    kept = evenly(len(network.edges), MOST_EDGES)
    arrays: Arrays = {"edges": network.edges[kept].astype(np.int32)}
    if staleness is not None:
        receivers = np.repeat(np.arange(network.size), np.diff(network.offsets))
        worse = np.maximum(staleness, staleness[network.reverse])
        arrays["staleness"] = worse[receivers < network.neighbours][kept]
    if network.known_positions is not None:
        arrays["positions"] = network.known_positions
    return arrays


def _pictured(size: int, points: int) -> NDArray[np.intp]:
    return evenly(size, max(1, min(MOST_PICTURED, MOST_NUMBERS // points)))


def _history(columns: Any) -> Arrays:
    return {f"history_{name}": column for name, column in thinned(columns).items()}


def _points(support: Support) -> Arrays:
    return {} if support.grid is not None else {"points": support.points}
