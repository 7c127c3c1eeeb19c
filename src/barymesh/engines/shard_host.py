"""A shard where it runs: it loads its measures, does what the solver asks of its nodes, and keeps snapshots from which
it can be started again. It does not depend on what started its process."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import BarymeshError, FileError, MeasureError
from barymesh.exact.pieces import in_pieces
from barymesh.exact.rows import Rows
from barymesh.exact.shards import Shards
from barymesh.io.atomic import replacing
from barymesh.io.npz import read_npz
from barymesh.measures import Measure
from barymesh.measures.lazy import Lazy, LazyMeasures
from barymesh.measures.stack import ImageStack, stacked
from barymesh.problem import Problem
from barymesh.resources.cores import set_threads

Floats = NDArray[np.float64]

# a shard of so many numbers is worked on in pieces
LARGE = 2**25
# a shard takes a snapshot after a step if the last one took at most this share of the time since
SNAPSHOT_SHARE = 0.05
# bytes, before the first one has shown how long it takes
WRITTEN_A_SECOND = 5e8


@dataclass(frozen=True)
class Loading:
    """What became of the measures of a shard: their ``weights (count,)``, compared with those of all others, and the
    ``messages`` of the warnings on the way."""

    weights: Floats
    messages: tuple[tuple[type[Warning], str], ...]


@dataclass(frozen=True)
class ShardPlace:
    """Where the nodes of a shard are among all: ``first`` of ``all_nodes``, with their ``weights (count,)``."""

    first: int
    all_nodes: int
    weights: Floats


class ShardHost:
    """Shard ``number`` of a ``run``, with the measures of the ``problem`` and so many ``threads``. ``folder``: where it
    keeps its snapshots; None: with the other temporary files of the machine."""

    def __init__(self, number: int, problem: Problem, threads: int, folder: str | Path | None, run: str) -> None:
        self.number, self.problem = number, problem
        self.folder = Path(tempfile.gettempdir() if folder is None else folder) / f"barymesh-{run}"
        self.nodes: Rows | Shards | None = None
        self.failure: BarymeshError | None = None
        self.taken, self.took = time.monotonic(), 0.0
        self.writing, self.left = Lock(), False
        set_threads(threads)

    def load(self) -> Loading:
        """Load the measures."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            lazy = any(isinstance(measure, Lazy) for measure in self.problem.measures)
            try:
                loaded = list(_loaded(self.problem))
            except BarymeshError as error:
                raise self._numbered(error) from error
            weights = np.concatenate([weights for _, weights in loaded])
            measures = _joined([some for some, _ in loaded])
            self.problem = replace(self.problem, measures=measures, weights=weights / weights.sum())
            # images on the points of the support have no mass elsewhere
            if lazy and not isinstance(measures, ImageStack):
                self.problem.warn_of_support()
        return Loading(weights, tuple((one.category, str(one.message)) for one in seen))

    def begin(self, place: ShardPlace, resumed: str | Path | None = None) -> int:
        """Begin, or continue from the last snapshot of this run; the number of the last call that it knows of, 0 at the
        beginning. ``resumed``: a folder with potentials of an earlier run."""
        self.place = place
        self.problem = replace(self.problem, first=place.first)
        try:
            self.nodes = self._made()
        except BarymeshError as error:
            raise self._numbered(error) from error
        if isinstance(self.nodes, Rows) and self._snapshot_file.exists():
            kept: dict[str, Any] = read_npz(self._snapshot_file)
            done = int(kept["done"])
            self.nodes.continue_from(kept)
            return done
        if resumed is not None:
            self.nodes.set_potentials(kept_potentials(Path(resumed), place, self.problem.reg, self.nodes.size))
        return 0

    def _made(self) -> Rows | Shards:
        problem, place = self.problem, self.place
        if place.weights.size * problem.support.size >= LARGE and problem.free is None:
            return in_pieces(problem, place.weights, place.all_nodes, self.folder)
        return Rows.of(problem, place.weights, place.all_nodes)

    def call(self, first: int, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
        """Carry out some calls, of which the first has this number; what the last returns."""
        found = None
        for number, (method, arguments) in enumerate(calls, start=first):
            found = self._carried_out(number, method, arguments)
        return found

    def _carried_out(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        assert self.nodes is not None
        if self.failure is not None:
            raise self.failure
        try:
            found = getattr(self.nodes, method)(*arguments)
        except BarymeshError as error:
            self.failure = self._numbered(error)
            raise self.failure from error
        if method == "move" and isinstance(self.nodes, Rows):
            self._take_snapshot(number, self.nodes)
        return found

    def keep(self, folder: str | Path) -> None:
        """Keep the potentials for a later run."""
        assert self.nodes is not None
        reg, nodes, written = self.problem.reg, self.nodes, 0
        Path(folder).mkdir(parents=True, exist_ok=True)
        file = Path(folder) / f"potentials-{self.place.first}.npy"
        part = file.with_suffix(".part")
        rows = np.lib.format.open_memmap(part, "w+", np.float64, (nodes.count, nodes.size))
        # large shards one piece after the other
        waits = [piece.submit for piece in nodes.shards] if isinstance(nodes, Shards) else [lambda _: nodes.potentials]
        for wait in waits:
            some = wait("potentials")()
            rows[written : written + len(some)] = reg * some
            written += len(some)
        rows.flush()
        part.replace(file)

    def leave(self) -> None:
        """Leave no snapshots behind, even if a call is under way."""
        with self.writing:
            self.left = True
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _snapshot_file(self) -> Path:
        return self.folder / f"shard-{self.number}.npz"

    def _take_snapshot(self, done: int, rows: Rows) -> None:
        began = time.monotonic()
        arrays = rows.snapshot()
        if arrays is None:
            return
        took = self.took or sum(array.nbytes for array in arrays.values()) / WRITTEN_A_SECOND
        if took <= SNAPSHOT_SHARE * (began - self.taken):
            with self.writing:
                if self.left:
                    return
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                with replacing(self._snapshot_file, private=True) as file:
                    np.savez(file, done=done, first=self.place.first, **arrays)  # type: ignore[arg-type]
            self.taken = time.monotonic()
            self.took = self.taken - began

    def _numbered(self, error: BarymeshError) -> BarymeshError:
        """The error, with the number that the measure has among all."""
        first = self.problem.first
        return type(error)(re.sub(r"^Measure (\d+)", lambda found: f"Measure {first + int(found[1])}", str(error)))


def _joined(parts: list[Sequence[Measure]]) -> Sequence[Measure]:
    """The measures of all parts, as a stack of images if all are."""
    stacks = [part for part in parts if isinstance(part, ImageStack)]
    if len(stacks) < len(parts):
        return [measure for part in parts for measure in part]
    pixels = stacks[0].pixels if len(stacks) == 1 else np.concatenate([stack.pixels for stack in stacks])
    return ImageStack(pixels, stacks[0].grid)


def _loaded(problem: Problem) -> Iterator[tuple[Sequence[Measure], Floats]]:
    """The measures of a problem and their weights, part by part, with the lazy ones loaded."""
    for k, (measure, weight) in enumerate(zip(problem.measures, problem.weights, strict=True)):
        if not isinstance(measure, Lazy):
            yield [measure], np.array([weight])
            continue
        try:
            found = measure.load()
            many = isinstance(measure, LazyMeasures)
            stack = stacked(found, problem.support.grid) if many and problem.free is None else None
            # one that is small is checked like all other measures
            made: Sequence[Measure] = (
                stack
                if stack is not None and len(stack) * problem.support.size >= LARGE
                else Problem.create(
                    found if many else [found], problem.free or problem.support, reg=problem.reg,
                    cost=problem.cost.given,
                ).measures
            )  # fmt: skip
        except BarymeshError as error:
            raise type(error)(f"Measure {k}: {error}") from error
        weights = np.full(len(made), weight)
        if isinstance(measure, LazyMeasures) and measure.weights is not None:
            if measure.weights.shape != weights.shape:
                raise MeasureError(
                    f"{measure!r}: {len(made)} measures were loaded, but it has weights of shape "
                    f"{measure.weights.shape}; give one weight each."
                )
            weights = weight * measure.weights
        yield made, weights


def kept_potentials(folder: Path, place: ShardPlace, reg: float, size: int) -> Floats:
    """``x (count, n)``: the potentials of the nodes at the place that an earlier run has kept, by however many shards;
    those of a run that was cut off are in its snapshots."""
    found = np.full((place.weights.size, size), np.nan)
    for file in (*folder.glob("barymesh-*/shard-*.npz"), *folder.glob("potentials-*.npy")):
        if file.suffix == ".npz":
            kept = read_npz(file)
            first, rows = int(kept["first"]), kept["x"]
        else:
            first, rows = int(file.stem.split("-")[1]), np.load(file, mmap_mode="r")
        if rows.ndim != 2 or rows.shape[1] != size:
            raise FileError(
                f"{file} has potentials of shape {rows.shape}; this support has {size} points. Name the checkpoint of "
                "this problem, or leave out resume."
            )
        begin, end = max(first, place.first), min(first + len(rows), place.first + len(found))
        if begin < end:
            unit = 1.0 if file.suffix == ".npz" else reg
            found[begin - place.first : end - place.first] = rows[begin - first : end - first] / unit
    if np.isnan(found).any():
        missing = place.first + int(np.flatnonzero(np.isnan(found).any(axis=1))[0])
        raise FileError(
            f"There are no potentials of measure {missing} in {folder}, as its worker sees it. Leave out resume, or "
            "name a folder that all machines share."
        )
    return found
