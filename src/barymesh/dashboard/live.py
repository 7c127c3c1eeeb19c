"""What a run keeps in its folder for the dashboard: ``live.npz`` while it is running, and then ``recording.npz``."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from barymesh.dashboard.recording import KeptScenes, write_recording
from barymesh.dashboard.scene import (
    MOST_TILES,
    Barycenter,
    Graph,
    NodeTable,
    Recording,
    Scene,
    TimeAxis,
    counts_of,
    drawn,
    graph_of,
    thinned,
)
from barymesh.errors import FileError
from barymesh.metrics import total_variations
from barymesh.record import NodeState
from barymesh.subsample import MOST_PICTURED, evenly

if TYPE_CHECKING:
    from barymesh.network.topology import Network
    from barymesh.record import Record, TreePlaces

Floats = NDArray[np.float64]

# the newest scene, and all of them, while a run goes on; all of them when it is over
LIVE, GROWING, RECORDING = "live.npz", "live-recording.npz", "recording.npz"
# estimates in a scene: of no more than so many numbers in all
MOST_NUMBERS = 50_000
# scenes, and files, take at most this share of the run's time each; the first scenes also some of a second
SHARE, GRACE = 0.02, 0.2
# the recording is written when the run has become longer by this share, and not before some seconds have passed
GROWTH, FIRST_WRITE = 0.1, 2.0
PHASES = {"starting": "Starting.", "waiting": "Waiting for its turn."}


class LiveFile:
    """A callback that makes a run visible: it keeps ``live.npz`` in a folder up to date, removes it at the end, and
    leaves ``recording.npz``, which the dashboard replays.

    However long the run, the recording has at most 300 scenes and about 6 MB. A run that fails leaves none, and that of
    an earlier run as it was. If a file cannot be written, the run continues without it.

    Parameters
    ----------
    folder
        Where the run will leave its results.
    method
        What runs, for the title of the page.
    until
        How long the run is meant to last, in its own seconds or iterations.
    every
        Seconds between two versions of ``live.npz``, at least; 0 for one after every record or iteration, whatever it
        costs.

    Examples
    --------
    >>> with LiveFile("out") as live:                                             # doctest: +SKIP
    ...     result = barymesh.barycenter(measures, reg=0.1, network="cycle", callback=live)
    ...     result.save("out/result.npz")
    """

    def __init__(self, folder: str | Path, method: str = "", until: float | None = None, every: float = 1.0) -> None:
        self.path, self.growing, self.recording = (Path(folder) / name for name in (LIVE, GROWING, RECORDING))
        self.written, self.scene_seconds = 0, 0.0
        # which run it is: one that was killed may have left its files
        self._about = {"pid": os.getpid(), "host": socket.gethostname(), "began": time.time()}
        self._method, self._until, self._every = method, until, every
        self._made: list[Path] = []
        self._rows: list[dict[str, float]] = []
        self._kept = KeptScenes()
        self._graph: Graph | None = None
        self._axis = TimeAxis("time", virtual=True)
        # the newest record, if there is no scene of it
        self._passed: Record | None = None
        self._began = time.monotonic()
        self._live_due, self._recording_due = 0.0, self._began + (FIRST_WRITE if every else 0.0)

    def __enter__(self) -> Self:
        # folders that are made for it, the innermost first
        self._made = [folder for folder in self.path.parents if not folder.exists()]
        self.announce("starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=kind is not None)

    def close(self, *, failed: bool = False) -> None:
        """The run is over: leave the recording unless it has failed, and remove the live files, and the folders made
        for them if they are empty."""
        if self._passed is not None and not failed:
            # what the nodes of a network know can still be read; a solver's estimates are those of the last scene
            last = None if self._passed.network is not None else self._kept.scenes[-1].barycenter
            self._kept.add(self._scene(self._passed, None if last is None else last.estimates))
        if self._kept.scenes and not failed:
            self._write(self.recording, self._kept.scenes)
        self._kept, self._passed = KeptScenes(), None
        for path in (self.path, self.growing):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def announce(self, phase: str) -> None:
        """Write that there are no data yet, and why: "starting", or "waiting" for another run to end."""
        self._write(self.path, [Scene(PHASES[phase], running=True)])

    def __call__(self, record: Record) -> None:
        """Record it if it is its turn, and write it unless the last one was written a moment ago."""
        # every one of them, although few are written
        self._rows.append(dict(record.figures))
        began = time.monotonic()
        live = began >= self._live_due
        affordable = not self._every or self.scene_seconds <= GRACE + SHARE * (began - self._began)
        if not live and not (self._kept.due and affordable):
            self._kept.skip()
            self._passed = record
            return
        scene = self._scene(record)
        self._kept.add(scene)
        self._passed = None
        self.scene_seconds += time.monotonic() - began
        if live:
            self._write(self.path, [scene])
            self._live_due = self._next(began, self._every)
        if began >= self._recording_due:
            self._write(self.growing, self._kept.scenes)
            self._recording_due = self._next(began, GROWTH * (began - self._began))

    def _next(self, began: float, pause: float) -> float:
        """When a file that took since ``began`` is due again."""
        return began + (max(pause, (time.monotonic() - began) / SHARE) if self._every else 0.0)

    def _scene(self, record: Record, estimates: Floats | None = None) -> Scene:
        """What there is to see at a record. ``estimates (k, n)``: those to show, if they are known."""
        network, line = record.network, record.support.dimension == 1
        self._axis = TimeAxis("iterations" if network is None else "time", record.virtual)
        now = float(record.step) if network is None else record.time
        fewer = min(MOST_PICTURED if line else MOST_TILES, MOST_NUMBERS // record.support.size)
        chosen = evenly(record.size, max(1, fewer))
        own = record.estimates(chosen) if estimates is None else estimates
        places = None if record.details is None else record.details.tree
        return Scene(
            status=f"At work: {self._axis.reading(now, self._until)}.",
            running=True,
            now=now,
            nodes=None if network is None else self._nodes(record, network),
            barycenter=Barycenter(record.support, record.weights.copy(), own.copy(), [f"node {k}" for k in chosen]),
            epoch=np.nan if places is None else float(np.floor(places.epochs.max())),
            rounds=places is not None and bool(places.rounds.any()),
            counts=counts_of(record.size, network, record.figures),
        )

    def _nodes(self, record: Record, network: Network) -> NodeTable | None:
        details = record.details
        if details is None:
            return None
        shown, edges = drawn(network)
        if self._graph is None:
            self._graph = graph_of(network)
        states, errors = details.states[shown], total_variations(record.estimates(shown), record.weights)
        return NodeTable(
            self._graph,
            np.where(states != NodeState.LEFT, errors, np.nan),
            states,
            _staleness(network, details.staleness)[edges],
            details.gaps[shown],
            _parents(details.tree, shown),
            np.zeros(shown.size, dtype=bool) if details.tree is None else details.tree.masked[shown],
        )

    def _write(self, path: Path, scenes: list[Scene]) -> None:
        columns = {name: np.array([row.get(name, np.nan) for row in self._rows]) for name in [*self._rows[:1], {}][0]}
        recording = Recording(
            self._method, scenes, {self._method: thinned(columns)}, self._axis.column, self._axis.unit
        )
        # no result depends on it, and a disk that is full now may have room later
        with contextlib.suppress(FileError):
            write_recording(path, recording, **self._about)
            self.written += path == self.path


def _staleness(network: Network, staleness: Floats | None) -> Floats:
    """``(E,)``: that of the worse direction of each edge; NaN where it is unknown."""
    if staleness is None:
        return np.full(len(network.edges), np.nan)
    receivers = np.repeat(np.arange(network.size), np.diff(network.offsets))
    return np.asarray(np.maximum(staleness, staleness[network.reverse])[receivers < network.neighbours])


def _parents(places: TreePlaces | None, shown: NDArray[np.intp]) -> NDArray[np.intp]:
    """The parents of the nodes that are shown, by their places among these; -1 for one that is not."""
    if places is None:
        return np.full(shown.size, -1, dtype=np.intp)
    parents = places.parents[shown]
    found = np.minimum(np.searchsorted(shown, parents), shown.size - 1)
    return np.where(shown[found] == parents, found, -1)
