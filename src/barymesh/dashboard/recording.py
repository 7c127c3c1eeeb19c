"""Recordings that stay small: however long a run is, so many scenes are kept, evenly spaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.dashboard.scene import Barycenter, Graph, NodeTable, Recording, Scene, nbytes
from barymesh.errors import FileError
from barymesh.io.atomic import replacing
from barymesh.io.npz import read_npz
from barymesh.record import NodeState
from barymesh.support.points import grid_values, stored_support

Arrays = dict[str, NDArray[Any]]

FORMAT = 2
# of a recording: scenes, and bytes, unless few scenes have more
MOST_SCENES, FEWEST_SCENES, MOST_BYTES = 300, 8, 6_000_000
STATES = np.array(list(NodeState), dtype=object)


class KeptScenes:
    """The scenes of a run that are kept: the first, then every second, fourth, eighth and so on as they become
    too many, and always the newest.

    ``due``: whether the next scene has its turn; one that has not is kept only until another comes.
    """

    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        # the first of all, every `stride`-th after it, and the newest
        self.stride, self.count = 1, 0
        self._passing = False

    @property
    def due(self) -> bool:
        """Whether the next scene will be kept for good."""
        return self.count % self.stride == 0

    def skip(self) -> None:
        """Let a moment pass that is not due, without a scene."""
        self.count += 1

    def add(self, scene: Scene) -> None:
        """Add the newest scene."""
        if self._passing:
            self.scenes.pop()
        self._passing = not self.due
        self.scenes.append(scene)
        self.count += 1
        if not self._passing and len(self.scenes) > self._most(scene):
            self._passing = len(self.scenes) % 2 == 0
            self.scenes = [*self.scenes[::2], *([scene] if self._passing else [])]
            self.stride *= 2

    def _most(self, scene: Scene) -> int:
        return int(np.clip(MOST_BYTES // max(nbytes(scene), 1), FEWEST_SCENES, MOST_SCENES))


# ---- on disk


def write_recording(path: Path, recording: Recording, **about: Any) -> None:
    """Write a recording of one run, whose scenes have the same graph and the same points or as many of them. ``about``:
    what else is known of it, for JSON."""
    scenes = recording.scenes
    header: dict[str, Any] = {
        "format": FORMAT, "title": recording.title, "clock": recording.clock, "unit": recording.unit,
        "runs": list(recording.runs), "about": about,
        "scenes": [
            {
                "status": scene.status, "running": scene.running, "now": scene.now, "epoch": scene.epoch,
                "rounds": scene.rounds, "counts": dict(scene.counts),
            }
            for scene in scenes
        ],
    }  # fmt: skip
    arrays: Arrays = {
        f"history_{name}": column for columns in recording.runs.values() for name, column in columns.items()
    }
    tables = [scene.nodes for scene in scenes if scene.nodes is not None]
    if tables:
        graph = tables[0].graph
        header["graph"] = {"names": list(graph.names), "total": graph.total, "links": graph.links}
        arrays |= {"positions": graph.positions, "edges": graph.edges.astype(np.int32)}
        arrays |= {name: _stacked([getattr(table, name) for table in tables]) for name in FIGURES}
        arrays["parents"] = np.stack([table.parents for table in tables]).astype(np.int32)
        arrays["masked"] = np.stack([table.masked for table in tables])
        number = {state: code for code, state in enumerate(NodeState)}
        arrays["states"] = np.array([[number[state] for state in table.states] for table in tables], dtype=np.uint8)
    seen = [scene.barycenter for scene in scenes if scene.barycenter is not None]
    if seen:
        header["owners"], header["grid"] = list(seen[0].owners), grid_values(seen[0].support)
        arrays["mean"] = _stacked([one.mean for one in seen])
        arrays["estimates"] = _stacked([one.estimates for one in seen])
        if header["grid"] is None:
            points = [one.support.points for one in seen]
            moved = any(one is not points[0] for one in points)
            arrays["points"] = np.stack(points if moved else points[:1])
    with replacing(path) as file:
        text: Any = np.array(json.dumps(header))
        np.savez(file, header=text, **arrays)  # type: ignore[arg-type]


# what is only looked at is kept as float32: half the bytes, and more digits than can be seen
FIGURES = ("errors", "staleness", "gaps")


def _stacked(arrays: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return np.stack(arrays).astype(np.float32)


def read_recording(path: Path) -> tuple[Recording, dict[str, Any]]:
    """The recording in a file, and what is known about it. FileError if it is damaged, or another version wrote it;
    FileNotFoundError if there is none."""
    try:
        arrays = read_npz(path)
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT:
            raise FileError(
                f"{path} has format {header['format']}; this version of barymesh reads format {FORMAT}. Look at it "
                "with the version that wrote it."
            )
        return _unpacked(header, arrays)
    except (FileError, FileNotFoundError):
        raise
    except Exception as error:  # zipfile, zlib, json and missing fields share no base
        raise FileError(f"{path} is damaged, or no recording of barymesh ({error}). Remove it.") from error


def _unpacked(header: dict[str, Any], arrays: Arrays) -> tuple[Recording, dict[str, Any]]:
    history = {name.removeprefix("history_"): a for name, a in arrays.items() if name.startswith("history_")}
    tables, seen = _tables(header, arrays), _barycenters(header, arrays)
    # those that have nothing to show come first
    first_table, first_seen = (len(header["scenes"]) - len(some) for some in (tables, seen))
    scenes = [
        Scene(
            **facts,
            nodes=tables[k - first_table] if k >= first_table else None,
            barycenter=seen[k - first_seen] if k >= first_seen else None,
        )
        for k, facts in enumerate(header["scenes"])
    ]
    runs = dict.fromkeys(header["runs"], history)
    return Recording(header["title"], scenes, runs, header["clock"], header["unit"]), header["about"]


def _tables(header: dict[str, Any], arrays: Arrays) -> list[NodeTable]:
    if "graph" not in header:
        return []
    graph = Graph(positions=arrays["positions"], edges=arrays["edges"].astype(np.intp), **header["graph"])
    errors, staleness, gaps = (arrays[name].astype(float) for name in FIGURES)
    states, parents, masked = STATES[arrays["states"]], arrays["parents"].astype(np.intp), arrays["masked"]
    return [
        NodeTable(graph, errors[k], states[k], staleness[k], gaps[k], parents[k], masked[k]) for k in range(len(errors))
    ]


def _barycenters(header: dict[str, Any], arrays: Arrays) -> list[Barycenter]:
    if "owners" not in header:
        return []
    points = arrays.get("points", [None])
    supports = [stored_support(header["grid"], one) for one in points]
    return [
        Barycenter(supports[min(k, len(supports) - 1)], mean.astype(float), estimates.astype(float), header["owners"])
        for k, (mean, estimates) in enumerate(zip(arrays["mean"], arrays["estimates"], strict=True))
    ]
