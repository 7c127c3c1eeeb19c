"""The data of a study: its experiments, runs and sweeps.

``experiments.py`` plans a study, ``runs.py`` makes one run, ``running.py`` makes all of them, ``storage.py`` keeps them
on disk, ``claims.py`` checks the paper's claims, ``figures.py`` and ``report.py`` show the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from barymesh.history import History
from barymesh.support.points import Support

Floats = NDArray[np.float64]

TOPOLOGIES = ("complete", "erdos_renyi", "cycle", "star")
# the paper's three methods; ours with all that a node knows, and from as many samples as the rivals draw
RIVALS = ("a2dwb", "a2dwb_naive", "dcwb")
OURS, OURS_SAMPLED = "sinkhorn", "sinkhorn_sampled"
METHODS = (*RIVALS, OURS, OURS_SAMPLED)
# the measures that a run is judged by: the column of a history, and the name for readers
MEASURES = {
    "dual": ("dual_error", "dual objective"),
    "consensus": ("consensus_distance", "consensus distance"),
    "feasibility": ("feasibility", "feasibility residual"),
    "tv": ("tv", "total variation to the true barycenter"),
}
LABELS = {
    "a2dwb": "A2DWB", "a2dwb_naive": "A2DWBN", "dcwb": "DCWB", "sinkhorn": "Sinkhorn (barymesh)",
    "sinkhorn_sampled": "Sinkhorn, from the same samples (barymesh)",
    "complete": "Complete", "erdos_renyi": "Erdős-Rényi", "cycle": "Cycle", "star": "Star",
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What all runs of an experiment share.

    Attributes
    ----------
    duration, record_every : float
        Virtual seconds: the length of a run, and the time between two records.
    samples : int
        M, the samples of its measure that a node draws in an activation.
    step_factor : float
        The step is this times ``reg / lambda_max``, for every method that has one.
    data : str
        What the measures are, in words.
    """

    nodes: int
    duration: float
    record_every: float
    reg: float
    samples: int
    step_factor: float
    seed: int
    data: str


@dataclass(frozen=True)
class Run:
    """One method on one network.

    Attributes
    ----------
    means : dict
        The nodes' average estimate ``(n,)`` by virtual time; NaN after the run has diverged.
    seconds : float
        The computing time; NaN if it is unknown.
    status : str
        "finished"; "converged": all nodes stopped by themselves; "diverged": the history ends where the duals stopped
        being finite.
    step_factor : float or None
        The step as a multiple of ``reg / lambda_max``; None for a method without one.
    """

    experiment: str
    topology: str
    method: str
    step: float | None
    history: History
    means: dict[float, Floats]
    seconds: float
    status: str = "finished"
    step_factor: float | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment with its runs, ``runs[topology, method]``, all with the step of the setting; ``best`` has the run
    with the best step instead, for every method whose step was varied. The optimum of the dual objective lies in
    ``[optimum - gap, optimum]``, which is certified; ``reference (n,)`` is the true barycenter."""

    name: str
    title: str
    setting: Setting
    support: Support
    optimum: float
    gap: float
    reference: Floats
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)
    best: dict[tuple[str, str], Run] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """How the last values of a run depend on one choice. With ``values[k]`` of the ``parameter`` ("reg", "step", "M")
    the method ends with ``dual[k]`` (dual objective minus optimum), ``consensus[k]``, ``feasibility[k]`` and ``tv[k]``;
    NaN where it diverged."""

    parameter: str
    topology: str
    method: str
    values: Floats
    dual: Floats
    consensus: Floats
    feasibility: Floats
    tv: Floats


@dataclass(frozen=True)
class Study:
    """Everything that a reproduction of the paper computed. ``bias``: long runs of A2DWB with exact gradients on a
    small network, from the largest step to the smallest."""

    experiments: dict[str, Experiment]
    sweeps: list[Sweep]
    quick: bool
    bias: list[Run] = field(default_factory=list)


def at_best_steps(study: Study) -> Study:
    """The study with the best step of each method, as far as steps were varied."""
    some = {name: e for name, e in study.experiments.items() if e.best}
    return replace(study, experiments={name: replace(e, runs=e.runs | e.best) for name, e in some.items()})


def best_of(runs: Iterable[Run]) -> Run:
    """The run that ends closest to the true barycenter; one that diverged only if all did."""
    return min(runs, key=lambda run: float("inf") if run.status == "diverged" else last_of(run, "tv"))


def methods_of(experiment: Experiment) -> list[str]:
    """The methods that ran, in the order of all tables and legends."""
    return [method for method in METHODS if any(method == ran for _, ran in experiment.runs)]


def topologies_of(experiment: Experiment) -> list[str]:
    """The topologies that it ran on, in the paper's order: from the best connected network down."""
    return [topology for topology in TOPOLOGIES if any(topology == place for place, _ in experiment.runs)]


def last_of(run: Run, column: str) -> float:
    """The value that a run ends with; NaN if it diverged."""
    return float("nan") if run.status == "diverged" else float(run.history[column][-1])
