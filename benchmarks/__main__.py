"""Run the benchmarks and write what they gave to results/latest.json and results/latest.md,
and for the methods on networks to results/network.json and results/network.md.

make bench
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numba

from benchmarks import exact, kernels, network, simulation
from benchmarks.tables import table

RESULTS = Path(__file__).with_name("results")


def page(results: dict[str, Any]) -> str:
    """The results as a page people can read."""
    parts = [
        "# Benchmarks",
        "Made by `make bench`, in one run on one machine; compare ratios, not times. "
        f"{results['machine']}, {results['threads']} threads, float64.",
        "## Oracle kernels",
        "*Over C*: against the same computation in C and OpenMP with the same polynomial exp (`benchmarks/oracle.c`), "
        "outputs allocated beforehand in both. *Over its flops*: against the time of the separable form's own "
        "floating-point operations at the rate of a 1500 x 1500 matrix product; all of them, though we skip those "
        "that only meet the empty margins of an image (what is left is given beside it). *reg ... over reg 0.004*: the "
        "same call where products underflow and nodes go through block floating point.",
    ]
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in results["kernels"]:
        kinds.setdefault(tuple(row), []).append(row)
    parts += [table(rows) for rows in kinds.values()]
    parts += [
        "## Simulator",
        "A2DWB in virtual time, schedule and delays of the paper. *Over the oracle alone*: the time of an activation "
        "in the best tenth of the run against the best time of the general oracle kernel for the same number of terms, "
        "taken between the tenths.",
        table(results["simulation"]["topologies"]),
        "Growth with the network: 0.2 virtual seconds at a time, the best; the memory is that of the whole process.",
        table(results["simulation"]["growth"]),
        "## The exact solver against POT and OTT-JAX",
        f"Handwritten threes on the unit square, reg {results['exact']['reg']}. Every solver gets the least number of "
        f"iterations (in steps) that brings it within L1 {results['exact']['accuracy (L1)']} of the converged "
        "barycenter; ours runs to a tolerance of 2e-5, chosen so that it just meets the same accuracy. "
        "Best of three runs after a warm-up. *peak MB* is the most memory its "
        "process held, everything included; *solve MB* the part after reading the data. No seconds: it did not reach "
        "the accuracy, and L1 is where it ended.",
    ]
    for case in results["exact"]["cases"]:
        summary = dict(case["summary"])
        times = summary.pop("ms per iteration by reg")
        first = next(iter(times.values()))
        parts += [f"### {summary.pop('case')}", table(case["rows"]), table([summary])]
        parts += [
            "Time of one of our iterations by reg:",
            table([{"reg": reg, "ms": t, "ratio": t / first} for reg, t in times.items()]),
        ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    results: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(),
        "threads": numba.get_num_threads(),
    }
    results["kernels"] = kernels.run()
    for row in results["kernels"]:
        print(row, flush=True)
    results["simulation"] = simulation.run()
    for rows in results["simulation"].values():
        for row in rows:
            print(row, flush=True)
    results["exact"] = exact.run()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "latest.md").write_text(page(results))
    print(f"Written to {RESULTS / 'latest.md'}.")
    network.main(quick=False)


if __name__ == "__main__":
    main()
