"""Recordings of a run, or of several methods compared, from the folder they write to: running, or ended."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from barymesh.dashboard.live import GROWING, LIVE, RECORDING
from barymesh.dashboard.recording import KeptScenes, read_recording
from barymesh.dashboard.scene import (
    Barycenter,
    Columns,
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
from barymesh.io.output import RESULT
from barymesh.method_names import NETWORK_METHODS
from barymesh.metrics import total_variations
from barymesh.record import NodeState
from barymesh.result import Result
from barymesh.subsample import MOST_PICTURED, evenly

T = TypeVar("T")
# seconds without a new file after which the page shows its age
SILENCE = 5.0
# a recording is that of a result if it ends within this L1 distance of it
SAME = 1e-3
KILLED = "The process of this run is gone, and left no result: it was killed."
NO_RESULT = "The run has ended, and left no result."
NOTHING = (0, 0)


class FolderSource:
    """The run in ``folder``. If there is none: those in the folders inside it with the names of methods, as ``barymesh
    compare`` makes them, or else the newest of those inside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # by file: when it was written, and what it holds
        self._files: dict[Path, tuple[tuple[int, int], Any]] = {}
        # by folder: which run goes on there, and what has been seen of it
        self._seen_live: dict[Path, tuple[Any, KeptScenes]] = {}
        self._seen = False

    def recording(self) -> Recording:
        """What there is now."""
        alone = self._run(self.folder)
        if alone is not None:
            self._seen = True
            return alone
        inside = sorted(path for path in self.folder.iterdir() if path.is_dir()) if self.folder.is_dir() else []
        runs = {path.name: run for path in inside if (run := self._run(path)) is not None}
        methods = {name: run for name, run in runs.items() if name in NETWORK_METHODS}
        if runs:
            self._seen = True
            newest = self._newest(methods or runs)
            return _compared(self.folder, methods, newest) if methods else _one_of(runs, newest)
        status = NO_RESULT if self._seen else f"No run has begun in {self.folder} yet."
        return Recording(_title(self.folder, ""), [Scene(status, running=False)])

    def _newest(self, runs: Mapping[str, Recording]) -> str:
        """The run to show: preferably one with data, then one that is running, then the one that ended last."""
        ages = {name: max(_stamp(self.folder / name / file)[0] for file in (LIVE, RESULT)) for name in runs}
        return max(runs, key=lambda name: (_has_data(runs[name]), runs[name].newest.running, ages[name]))

    def _run(self, folder: Path) -> Recording | None:
        """The run in exactly this folder. A running one comes before an earlier result."""
        live, growing = (self._read(folder / name, read_recording) for name in (LIVE, GROWING))
        if live is not None:
            scene = _with_silence(live[0].newest, _stamp(folder / LIVE)[0], live[1]["pid"], live[1]["host"])
            # one that was killed may have left the other file
            before = list(growing[0].scenes) if growing is not None and growing[1] == live[1] else []
            seen = self._watched(folder, live[1], live[0].newest)
            # what has come since that file was written, as far as it has been seen here
            before += [one for one in seen if not before or one.now > before[-1].now]
            scenes = [*(one for one in before if one.now < scene.now), scene]
            return replace(live[0], title=_title(folder, live[0].title), scenes=scenes)
        result = self._read(folder / RESULT, Result.load)
        try:
            stored = self._read(folder / RECORDING, read_recording)
        except FileError:
            if result is None:
                raise
            # there is more to see than the recording
            stored = None
        known = None if stored is None else replace(stored[0], title=_title(folder, stored[0].title))
        same = known is not None and result is not None and _ends_with(known, result)
        if result is not None and (same or known is None or _stamp(folder / RESULT) > _stamp(folder / RECORDING)):
            return _of_result(folder, result, known if same else None)
        if known is None:
            return None
        over = replace(known.newest, status=NO_RESULT, running=False)
        return replace(known, scenes=[*known.scenes[:-1], over])

    def _watched(self, folder: Path, run: Any, newest: Scene) -> list[Scene]:
        """The scenes of this run that have been the newest when the folder was looked at, with this one."""
        known, kept = self._seen_live.get(folder, (None, None))
        if kept is None or known != run:
            kept = KeptScenes()
        if np.isfinite(newest.now) and (not kept.scenes or newest.now > kept.scenes[-1].now):
            kept.add(newest)
        self._seen_live[folder] = run, kept
        return kept.scenes

    def _read(self, path: Path, read: Callable[[Path], T]) -> T | None:
        """What is in the file, read anew when it has changed; None if there is no such file."""
        stamp = _stamp(path)
        if stamp == NOTHING:
            self._files.pop(path, None)
            return None
        kept = self._files.get(path)
        if kept is None or kept[0] != stamp:
            try:
                kept = self._files[path] = stamp, read(path)
            except FileNotFoundError:
                # taken away this very moment: the run has ended
                return None
        found: T = kept[1]
        return found


def _of_result(folder: Path, result: Result, known: Recording | None) -> Recording:
    """A run that has ended, from its result, after the scenes of its recording."""
    size, network = len(result.node_weights), result.network
    figures: dict[str, float] = {"gap": result.gap}
    if network is not None:
        figures |= {"activations": result.activations, "messages": result.messages, "bytes": result.bytes}
    axis = TimeAxis("iterations" if network is None else "time", virtual=True)
    history = thinned(result.history.columns)
    # as many as before, so that they can be shown in the same place
    recorded = None if known is None else known.newest.barycenter
    chosen = evenly(size, MOST_PICTURED if recorded is None else len(recorded.owners))
    last = Scene(
        status=f"Over. {result.message}",
        running=False,
        now=float(history[axis.column][-1]) if history.get(axis.column, np.empty(0)).size else 0.0,
        nodes=_nodes(result),
        barycenter=Barycenter(
            result.support, result.weights, result.node_weights[chosen], [f"node {k}" for k in chosen]
        ),
        counts=counts_of(size, network, figures),
    )
    found = Recording(_title(folder, result.method), [last], {result.method: history}, axis.column, axis.unit)
    if known is None:
        return found
    # the recording knows the nodes better: those that were lost, and their tree
    end = known.newest
    if end.nodes is not None:
        states = end.nodes.states.copy()
        states[states == NodeState.WORKING] = NodeState.ENDED
        last = replace(last, nodes=replace(end.nodes, states=states), epoch=end.epoch, rounds=end.rounds)
        last = replace(last, counts={**last.counts, "nodes": end.counts["nodes"], "links": end.counts["links"]})
    return replace(found, scenes=[*known.scenes[:-1], replace(last, now=end.now)], unit=known.unit)


def _nodes(result: Result) -> NodeTable | None:
    network = result.network
    if network is None:
        return None
    shown, edges = drawn(network)
    gaps = np.full(network.size, np.nan) if result.node_gaps is None else result.node_gaps
    return NodeTable(
        graph=graph_of(network),
        errors=total_variations(result.node_weights, result.weights)[shown],
        states=np.full(shown.size, NodeState.CONVERGED if result.success else NodeState.ENDED, dtype=object),
        staleness=np.full(edges.size, np.nan),
        gaps=gaps[shown],
        parents=np.full(shown.size, -1),
        masked=np.zeros(shown.size, dtype=bool),
    )


def _ends_with(recording: Recording, result: Result) -> bool:
    """Whether the recording is that of the run that had this result."""
    seen = recording.newest.barycenter
    if seen is None or seen.mean.shape != result.weights.shape:
        return False
    return bool(np.abs(seen.mean - result.weights).sum() < SAME)


def _has_data(run: Recording) -> bool:
    return any(columns for columns in run.runs.values())


def _stamp(path: Path) -> tuple[int, int]:
    """A value that changes when the file does, larger for a newer one; ``NOTHING`` if there is none."""
    try:
        found = path.stat()
    except OSError:
        return NOTHING
    return found.st_mtime_ns, found.st_ino


def _alive(pid: int, host: str) -> bool:
    """Whether the process that wrote the file still exists; assumed if it is on another machine."""
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _with_silence(scene: Scene, written: int, pid: int, host: str) -> Scene:
    """The scene, with a note if its file is old or its process is gone."""
    if not _alive(pid, host):
        return replace(scene, status=KILLED, running=False)
    silent = time.time() - written / 1e9
    if silent < SILENCE or scene.barycenter is None:
        return scene
    return replace(scene, status=f"{scene.status} Last data {silent:.0f} s ago.")


def _title(folder: Path, method: str) -> str:
    name = folder.resolve().name
    return f"{method}: {name}" if method and method != name else name


def _phase(run: Recording) -> str:
    if not run.newest.running:
        return "is over"
    return "is at work" if _has_data(run) else "waits"


def _one_of(runs: Mapping[str, Recording], newest: str) -> Recording:
    """The newest of several runs that have nothing to do with each other, which are named."""
    chosen, others = runs[newest], [name for name in runs if name != newest]
    if not others:
        return chosen
    last = replace(chosen.newest, status=f"{chosen.newest.status} (Also in this folder: {', '.join(others)}.)")
    return replace(chosen, scenes=[*chosen.scenes[:-1], last])


def _compared(folder: Path, runs: Mapping[str, Recording], newest: str) -> Recording:
    """All methods' curves together, with the scenes of the one that is at work."""
    chosen = runs[newest]
    histories: dict[str, Columns] = {name: next(iter(run.runs.values()), {}) for name, run in runs.items()}
    status = ", ".join(f"{name} {_phase(run)}" for name, run in runs.items())
    running = any(run.newest.running for run in runs.values())
    last = replace(chosen.newest, status=f"{chosen.newest.status} ({status}.)", running=running)
    return replace(
        chosen,
        title=f"{newest}, one of {len(runs)} methods: {folder.resolve().name}",
        scenes=[*chosen.scenes[:-1], last],
        runs=histories,
    )
