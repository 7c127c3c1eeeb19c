"""The exact solver on a Ray cluster on this machine: how large a problem it takes, and what shards cost.

python -m benchmarks.cluster 1000000              so many images of 28 x 28, on as many workers as cores
python -m benchmarks.cluster scaling              actors against threads, and half of the images on one core
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import barymesh as bm
from barymesh.engines.ray import connected
from benchmarks.parts import Row
from benchmarks.tables import table

SIDE, REG, TOL = 28, 0.004, 1e-4
# images drawn together
CHUNK = 2000
# images of the comparison of threads with actors, and turns of which the shortest counts
IMAGES, TURNS = 6000, 3


def rings(first: int, last: int) -> NDArray[np.uint8]:
    """``(last - first, 28, 28)``: ellipses of any size, place and angle; each depends on its number alone."""
    found = np.empty((last - first, SIDE, SIDE), np.uint8)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / (SIDE - 1.0)
    for chunk in range(first // CHUNK, -(-last // CHUNK)):
        rng = np.random.default_rng(chunk)
        centre = rng.uniform(0.35, 0.65, (CHUNK, 2, 1, 1))
        radius = rng.uniform(0.08, 0.25, (CHUNK, 2, 1, 1))
        angle = rng.uniform(0, np.pi, (CHUNK, 1, 1))
        right, up = x - centre[:, 0], y - centre[:, 1]
        u, v = right * np.cos(angle) + up * np.sin(angle), up * np.cos(angle) - right * np.sin(angle)
        distance = np.sqrt((u / radius[:, 0]) ** 2 + (v / radius[:, 1]) ** 2)
        images = np.round(255 * np.exp(-(((distance - 1) / 0.25) ** 2))).astype(np.uint8)
        images[images < 16] = 0
        begin, end = max(first, chunk * CHUNK), min(last, (chunk + 1) * CHUNK)
        found[begin - first : end - first] = images[begin - chunk * CHUNK : end - chunk * CHUNK]
    return found


class Memory:
    """The most memory that the shards of this machine take, all together, in bytes: their own, and that of files."""

    def __init__(self) -> None:
        self.own = self.files = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            own = files = 0
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
                except OSError:
                    continue
                # one that has ended has no memory
                if lines["Name"].strip().startswith("ray::RemoteHost") and "RssAnon" in lines:
                    own += 1024 * int(lines["RssAnon"].split()[0])
                    files += 1024 * int(lines["RssFile"].split()[0])
            self.own, self.files = max(self.own, own), max(self.files, files)


def solved(count: int, workers: int, **options: Any) -> tuple[bm.Result, float]:
    """The barycenter of so many images, and the seconds of its iterations, without loading."""
    ends = np.linspace(0, count, workers + 1).astype(int)
    shards = [bm.LazyMeasures(rings, int(a), int(b)) for a, b in itertools.pairwise(ends)]
    times: list[float] = []

    def note(record: bm.Record) -> None:
        times.append(time.perf_counter())

    result = bm.barycenter(
        shards, bm.Support.regular((SIDE, SIDE), 0, 1), reg=REG, engine="ray", workers=workers, callback=note,
        **{"tol": TOL, "precision": "float32", **options},
    )  # fmt: skip
    return result, (times[-1] - times[0]) / max(len(times) - 1, 1)


def large(count: int, workers: int = 2, max_iter: int = 500) -> Row:
    """One large problem."""
    with connected(None, workers), Memory() as memory:
        result, each = solved(count, workers, max_iter=max_iter)
    return {
        "images": count, "workers": workers, "status": result.status.name, "iterations": result.iterations,
        "error": float(result.history["consensus"][-1]), "gap": result.gap, "TV bound": result.tv_bound,
        "seconds": result.seconds, "s an iteration": each, "own GB": memory.own / 1e9, "files GB": memory.files / 1e9,
    }  # fmt: skip


def scaling() -> list[Row]:
    """Seconds an iteration: threads of one process, and actors with a thread each, in turns."""
    support, rows = bm.Support.regular((SIDE, SIDE), 0, 1), []
    how: dict[str, Any] = {"tol": 0.0, "max_iter": 12, "precision": "float64"}
    images = rings(0, IMAGES)

    def by_threads(count: int, threads: int) -> float:
        times: list[float] = []
        bm.set_threads(threads)
        bm.barycenter(images[:count], support, reg=REG, callback=lambda _: times.append(time.perf_counter()), **how)
        return (times[-1] - times[0]) / (len(times) - 1)

    with connected(None, 2):
        ways: dict[str, Callable[[], float]] = {
            "one thread": lambda: by_threads(IMAGES, 1),
            "two threads": lambda: by_threads(IMAGES, 2),
            "one actor with two threads": lambda: solved(IMAGES, 1, **how)[1],
            "two actors": lambda: solved(IMAGES, 2, **how)[1],
            "one thread, half of the images": lambda: by_threads(IMAGES // 2, 1),
        }
        least = dict.fromkeys(ways, np.inf)
        for _ in range(TURNS):
            for name, measured in ways.items():
                least[name] = min(least[name], measured())
    for name, seconds in least.items():
        rows.append({"way": name, "ms an iteration": 1e3 * seconds, "over two threads": seconds / least["two threads"]})
    return rows


if __name__ == "__main__":
    # Ray would end workers where the pages of files fill the memory, which the operating system takes away when needed
    os.environ["RAY_memory_monitor_refresh_ms"] = "0"  # noqa: SIM112
    if sys.argv[1] == "scaling":
        print(table(scaling()))
    else:
        print(table([large(*map(int, sys.argv[1:]))]))
