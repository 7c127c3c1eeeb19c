"""A made-up study, small and with everything that can happen in it: drift below the optimum, divergence, early ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from barymesh.history import History
from barymesh.support.points import Support
from barymesh_a2dwb.study import OURS, RIVALS, TOPOLOGIES, Experiment, Run, Setting, Study, Sweep

DURATION, RECORD_EVERY = 20.0, 1.0
TIMES = (5.0, 10.0, 20.0)
OPTIMUM, GAP, START = -2.0, 1e-9, 3.0
# what a run ends with: dual objective minus optimum, consensus, feasibility, tv
ENDS = {
    "a2dwb": (-0.5, 1.0, 0.3, 0.3),
    "a2dwb_naive": (-0.2, 5.0, 0.4, 0.4),
    "dcwb": (1.5, 20.0, 1e-17, 0.6),
    "sinkhorn": (1e-9, 1e-12, 1e-8, 1e-8),
    "sinkhorn_sampled": (1e-3, 1e-3, 1e-2, 5e-3),
}


def make_study(
    names: tuple[str, ...] = ("gaussian", "mnist-2", "mnist-3"),
    *,
    topologies: tuple[str, ...] = TOPOLOGIES,
    sweeps: bool = True,
    quick: bool = False,
    ends: dict[str, tuple[float, float, float, float]] = ENDS,
) -> Study:
    """Experiments by name; images on one of the topologies only, to save time. On the cycle A2DWBN diverges; ours
    stops early everywhere."""
    experiments = {name: _experiment(name, topologies, ends) for name in names}
    if not sweeps:
        return Study(experiments, [], quick)
    swept = [_sweep(parameter, method) for parameter in ("step", "reg") for method in RIVALS]
    tuned = {name: replace(e, best=_tuned(e)) for name, e in experiments.items()}
    return Study(tuned, swept, quick, _bias())


def _tuned(experiment: Experiment) -> dict[tuple[str, str], Run]:
    """The runs with the best steps: for DCWB those of ours, for the others their own."""
    runs = experiment.runs
    return {
        (topology, method): replace(
            runs[topology, OURS if method == "dcwb" else method], method=method, step_factor=4.0
        )
        for topology, method in runs
        if method in RIVALS
    }


def _bias() -> list[Run]:
    """A2DWB at rest: 0.4 from the truth with the step 16, and half as far with each step that is a quarter of it."""
    times = np.array([0.0, 1.0, 10.0])
    return [
        Run("bias", "erdos_renyi", "a2dwb", 1.0, History({"time": times, "tv": np.array([0.8, tv, tv])}), {}, 0.0,
            step_factor=step)
        for step, tv in ((16.0, 0.4), (4.0, 0.2), (1.0, 0.1), (0.25, 0.05))
    ]  # fmt: skip


def without(study: Study, method: str) -> Study:
    """The same without a method."""
    kept = {
        name: replace(e, runs={key: run for key, run in e.runs.items() if key[1] != method})
        for name, e in study.experiments.items()
    }
    return replace(study, experiments=kept)


def _experiment(
    name: str, topologies: tuple[str, ...], ends: dict[str, tuple[float, float, float, float]]
) -> Experiment:
    images = name != "gaussian"
    support = Support.regular((6, 6)) if images else Support.regular(12, -5, 5)
    reference = np.arange(1.0, support.size + 1)
    reference /= reference.sum()
    setting = Setting(50, DURATION, RECORD_EVERY, 0.1, 10, 1.0, 3, f"made up <for {name}>")
    title = f"MNIST, digit {name[-1]}" if images else "Gaussian distributions"
    methods = [method for method in ends if not (images and method == "sinkhorn_sampled")]
    runs = {
        (topology, method): _run(name, topology, method, reference, ends[method])
        for topology in (_of_digit(name, topologies) if images else topologies)
        for method in methods
    }
    # two digits do not have the same optimum
    optimum = OPTIMUM - (int(name[-1]) if images else 0)
    return Experiment(name, title, setting, support, optimum, GAP, reference, _shifted(runs, optimum))


def _of_digit(name: str, topologies: tuple[str, ...]) -> tuple[str, ...]:
    """As in the paper: the digit 2 on the first topology, 3 on the second."""
    return topologies[1:2] if name == "mnist-3" and len(topologies) > 1 else topologies[:1]


def _shifted(runs: dict[tuple[str, str], Run], optimum: float) -> dict[tuple[str, str], Run]:
    for run in runs.values():
        run.history.columns["dual_objective"] = run.history["dual_error"] + optimum
    return runs


def _run(name: str, topology: str, method: str, reference: np.ndarray, ends: tuple[float, float, float, float]) -> Run:
    status = "converged" if method == OURS else "finished"
    last = 11.4 if method == OURS else DURATION
    if (topology, method) == ("cycle", "a2dwb_naive"):
        status, last = "diverged", 7.0
    times = np.append(np.arange(0.0, last), last)
    share = times / DURATION if method != OURS else times / last
    gap = START + (ends[0] - START) * share**0.5
    decay = [first ** (1 - share) * end**share for first, end in zip((100.0, 1.0, 0.8), ends[1:], strict=True)]
    feasibility = ends[2] * share
    history = History(
        {
            "time": times, "dual_objective": gap, "consensus": decay[0],
            "consensus_distance": decay[0], "feasibility": feasibility, "tv": decay[2],
            "dual_error": gap, "activations": times, "messages": times, "bytes": times,
        }
    )  # fmt: skip
    flat = np.full(reference.size, 1 / reference.size)
    means = dict.fromkeys(TIMES, reference if method == OURS else flat)
    if status == "diverged":
        means = {time: mean if time <= last else np.full_like(mean, np.nan) for time, mean in means.items()}
    step = None if method.startswith(OURS) else 0.01
    return Run(name, topology, method, step, history, means, float("nan"), status)


def _sweep(parameter: str, method: str) -> Sweep:
    values = np.array([0.25, 1.0, 16.0])
    dual = np.array([2.0, 1.0, -1.0 if method == "a2dwb" else np.nan])
    size = np.where(np.isnan(dual), np.nan, 0.1)
    return Sweep(parameter, "erdos_renyi", method, values, dual, size, size, size)
