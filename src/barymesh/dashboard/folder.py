"""Scenes of a run, or of several methods compared, from the folder they write to: running, or ended."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.filesize import decimal

from barymesh.dashboard.live import FORMAT, LIVE
from barymesh.dashboard.scene import (
    GAP,
    MOST_EDGES,
    MOST_NODES,
    Barycenter,
    Columns,
    NodeTable,
    Scene,
    layout,
    thinned,
)
from barymesh.errors import FileError
from barymesh.io.npz import read_npz
from barymesh.io.output import RESULT
from barymesh.metrics import total_variations
from barymesh.record import NodeState
from barymesh.result import Result
from barymesh.subsample import MOST_PICTURED, evenly
from barymesh.support.points import stored_support

# seconds without a new file after which the page shows its age
SILENCE = 5.0
PHASES = {"starting": "Starting.", "waiting": "Waiting for its turn."}


class FolderSource:
    """The run in ``folder``; if there is none, those in the folders inside it, as ``barymesh compare`` makes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, tuple[tuple[int, int], Scene]] = {}
        # by file, the process and the machine that write it
        self._writer: dict[Path, tuple[int, str]] = {}
        self._positions: dict[bytes, NDArray[np.float64]] = {}
        self._seen = False

    def scene(self) -> Scene:
        """What there is now."""
        alone = self._run(self.folder)
        if alone is not None:
            self._seen = True
            return alone
        inside = sorted(path for path in self.folder.iterdir() if path.is_dir()) if self.folder.is_dir() else []
        runs = {path.name: run for path in inside if (run := self._run(path)) is not None}
        if runs:
            self._seen = True
            return _compared(self.folder, runs, self._newest(runs))
        status = "The run has ended, and left no result." if self._seen else f"No run has begun in {self.folder} yet."
        return Scene(title=_title(self.folder, ""), status=status, running=False)

    def _newest(self, runs: Mapping[str, Scene]) -> str:
        """The run to show: preferably one with data, then one that is running, then the one that ended last."""
        ages = {name: max(_stamp(self.folder / name / file)[0] for file in (LIVE, RESULT)) for name in runs}
        return max(runs, key=lambda name: (bool(runs[name].runs), runs[name].running, ages[name]))

    def _run(self, folder: Path) -> Scene | None:
        """The run in exactly this folder. A running one comes before an earlier result."""
        for file, read in ((LIVE, self._running_scene), (RESULT, self._final_scene)):
            path = folder / file
            stamp = _stamp(path)
            if stamp == NOTHING:
                continue
            known = self._read.get(path)
            if known is None or known[0] != stamp:
                try:
                    known = (stamp, read(path))
                except FileNotFoundError:
                    # taken away this very moment: the run has ended
                    continue
                self._read[path] = known
            return known[1] if file == RESULT else _with_silence(known[1], stamp[0], *self._writer[path])
        return None

    def _running_scene(self, path: Path) -> Scene:
        arrays = read_npz(path)
        facts = json.loads(str(arrays.pop("header")))
        if facts["format"] != FORMAT:
            raise FileError(
                f"{path} has format {facts['format']}; this version of barymesh reads format {FORMAT}. Look at it "
                "with the version that wrote it."
            )
        self._writer[path] = facts["pid"], facts["host"]
        title = _title(path.parent, facts["method"])
        if "now" not in facts:
            return Scene(title=title, status=PHASES.get(facts["phase"], "At work."), running=True)
        support = stored_support(facts["grid"], arrays.get("points"))
        history = {name.removeprefix("history_"): a for name, a in arrays.items() if name.startswith("history_")}
        counts = {name: facts[name] for name in ("activations", "messages", "bytes") if name in facts}
        clock = TimeAxis(facts["clock"], bool(facts.get("virtual")))
        return Scene(
            title=title,
            status=f"At work: {clock.reading(facts['now'], facts['until'])}.",
            running=True,
            runs={facts["method"]: history},
            clock=clock.column,
            unit=clock.unit,
            nodes=self._nodes(facts, arrays) if "states" in arrays else None,
            barycenter=Barycenter(
                support,
                arrays["mean"].astype(float),
                arrays["estimates"].astype(float),
                [f"node {k}" for k in arrays["pictured"]],
            ),
            counts=_counts(facts["size"], facts.get("links"), facts.get("network"), counts),
        )

    def _nodes(self, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> NodeTable:
        edges = arrays.get("edges", np.empty((0, 2))).astype(np.intp)
        size = arrays["shown"].size
        return NodeTable(
            names=[str(k) for k in arrays["shown"]],
            positions=arrays["positions"] if "positions" in arrays else self._placed(size, edges),
            errors=arrays["errors"].astype(float),
            states=[NodeState(state) for state in arrays["states"]],
            edges=edges,
            staleness=arrays.get("staleness", np.full(len(edges), np.nan)).astype(float),
            total=facts["size"],
            links=facts["links"],
        )

    def _placed(self, size: int, edges: NDArray[np.intp]) -> NDArray[np.float64]:
        key = edges.tobytes() + size.to_bytes(8)
        if key not in self._positions:
            self._positions[key] = layout(size, edges)
        return self._positions[key]

    def _final_scene(self, path: Path) -> Scene:
        result = Result.load(path)
        size, network = len(result.node_weights), result.network
        clock = TimeAxis("iterations" if network is None else "time", virtual=True)
        chosen, nodes = evenly(size, MOST_PICTURED), None
        counts: dict[str, Any] = {"gap": result.gap}
        if network is not None:
            counts |= {"activations": result.activations, "messages": result.messages, "bytes": result.bytes}
            shown = evenly(size, MOST_NODES)
            few = network.edges[evenly(len(network.edges), MOST_EDGES)]
            edges = few if size <= MOST_NODES else few[:0]
            state = NodeState.CONVERGED if result.success else NodeState.ENDED
            known = network.known_positions if size <= MOST_NODES else None
            nodes = NodeTable(
                names=[str(k) for k in shown],
                positions=self._placed(shown.size, edges) if known is None else known,
                errors=total_variations(result.node_weights, result.weights)[shown],
                states=[state] * shown.size,
                edges=edges,
                staleness=np.full(len(edges), np.nan),
                total=size,
                links=len(network.edges),
            )
        return Scene(
            title=_title(path.parent, result.method),
            status=f"Over. {result.message}",
            running=False,
            runs={result.method: thinned(result.history.columns)},
            clock=clock.column,
            unit=clock.unit,
            nodes=nodes,
            barycenter=Barycenter(
                result.support, result.weights, result.node_weights[chosen], [f"node {k}" for k in chosen]
            ),
            counts=_counts(
                size, None if network is None else len(network.edges), network.name if network else None, counts
            ),
        )


@dataclass(frozen=True)
class TimeAxis:
    """What a run's time is measured by: the ``column`` of its history."""

    column: str
    virtual: bool

    @property
    def unit(self) -> str:
        if self.column == "iterations":
            return ""
        return "virtual s" if self.virtual else "s"

    def reading(self, now: float, until: float | None) -> str:
        """A time in words."""
        of = "" if until is None else f" of {until:,.6g}"
        if self.column == "iterations":
            return f"iteration {now:,.0f}" + (f" of at most {until:,.0f}" if until else "")
        return f"{now:,.4g}{of} {'virtual ' if self.virtual else ''}seconds"


KILLED = "The process of this run is gone, and left no result: it was killed."
NOTHING = (0, 0)


def _stamp(path: Path) -> tuple[int, int]:
    """A value that changes when the file does; ``NOTHING`` if there is none."""
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
    if silent < SILENCE or not scene.runs:
        return scene
    return replace(scene, status=f"{scene.status} Last data {silent:.0f} s ago.")


def _title(folder: Path, method: str) -> str:
    name = folder.resolve().name
    return f"{method}: {name}" if method and method != name else name


def _counts(size: int, links: int | None, network: str | None, counts: Mapping[str, Any]) -> dict[str, str]:
    from barymesh.viz.theme import shown_number

    found = {"nodes" if links is not None else "measures": f"{size:,}"}
    if links is not None:
        found |= {"links": f"{links:,}", "network": str(network)}
    names = {"activations": "activations", "messages": "messages"}
    found |= {name: f"{counts[key]:,.0f}" for key, name in names.items() if key in counts}
    if counts.get("bytes"):
        found["bytes sent"] = decimal(int(counts["bytes"]))
    if "gap" in counts:
        found[GAP] = shown_number(counts["gap"], 2)
    return found


def _phase(run: Scene) -> str:
    if not run.running:
        return "is over"
    return "is at work" if run.runs else "waits"


def _compared(folder: Path, runs: Mapping[str, Scene], newest: str) -> Scene:
    """All methods' curves together, with the network and the barycenter of the one that is at work."""
    chosen = runs[newest]
    histories: dict[str, Columns] = {name: next(iter(run.runs.values()), {}) for name, run in runs.items()}
    status = ", ".join(f"{name} {_phase(run)}" for name, run in runs.items())
    return replace(
        chosen,
        title=f"{newest}, one of {len(runs)} methods: {folder.resolve().name}",
        status=f"{chosen.status} ({status}.)",
        running=any(run.running for run in runs.values()),
        runs=histories,
    )
