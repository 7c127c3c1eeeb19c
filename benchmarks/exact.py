"""The exact solver against POT and OTT-JAX: same images, same reg, same accuracy, one run.

python -m benchmarks.exact
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import barymesh as bm
from barymesh.exact import State
from benchmarks.contestants import ACCURACY, MAKERS
from benchmarks.images import digits

CASES = [("500 images of 28 x 28", 500, 28), ("200 images of 64 x 64", 200, 64)]
REG = 0.004
SMALL_REGS = (5e-4, 2.5e-4, 1e-4)


def compare(title: str, count: int, side: int) -> list[dict[str, Any]]:
    """Every contestant in a process of its own on one set of images."""
    images = digits(count, side)
    reference = bm.barycenter(images, reg=REG, tol=1e-10)
    assert reference.success
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        case = Path(folder) / "case.npz"
        np.savez(case, images=images, reference=reference.weights)
        for name in MAKERS:
            command = [sys.executable, "-m", "benchmarks.contestants", name, str(case), str(REG), "-"]
            ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"})
            if ran.returncode:
                rows.append({"name": name, "note": ran.stderr.strip().splitlines()[-1]})
            else:
                rows.append({"name": name, **json.loads(ran.stdout.strip().splitlines()[-1])})
            print(rows[-1], flush=True)
    return rows


def time_per_iteration(count: int, side: int) -> dict[str, float]:
    """Milliseconds an iteration of our solver, by reg: where products underflow it must not be slow."""
    images = digits(count, side)
    times = {}
    for reg in (REG, *SMALL_REGS):
        bm.barycenter(images, reg=reg, tol=0, max_iter=3)
        best = float("inf")
        for _ in range(3):
            marks: list[tuple[int, float]] = []

            def mark(state: State, marks: list[tuple[int, float]] = marks) -> None:
                marks.append((state.iteration, time.perf_counter()))

            bm.barycenter(images, reg=reg, tol=0, max_iter=40, callback=mark)
            # every evaluation of the oracle counts as an iteration, rejected steps too
            (first, began), (last, ended) = marks[5], marks[-1]
            best = min(best, (ended - began) / (last - first))
        times[f"{reg}"] = 1e3 * best
    return times


def run() -> dict[str, Any]:
    """All comparisons, with the factor to the best of the others in each case."""
    results: dict[str, Any] = {"reg": REG, "accuracy (L1)": ACCURACY, "cases": []}
    for title, count, side in CASES:
        rows = compare(title, count, side)
        ours = next(row for row in rows if row["name"] == "barymesh")
        others = [row for row in rows if row["name"] != "barymesh" and row.get("seconds")]
        fastest = min(others, key=lambda row: row["seconds"])
        leanest = min(others, key=lambda row: row["peak MB"])
        summary = {
            "case": title,
            "ours (s)": ours["seconds"],
            "fastest other": fastest["name"],
            "times faster": fastest["seconds"] / ours["seconds"],
            "peak MB": ours["peak MB"],
            "fastest other's peak MB": fastest["peak MB"],
            "leanest other": leanest["name"],
            "leanest other's peak MB": leanest["peak MB"],
            "ms per iteration by reg": time_per_iteration(count, side),
        }
        print(summary, flush=True)
        results["cases"].append({"summary": summary, "rows": rows})
    return results


if __name__ == "__main__":
    run()
