"""What a reproduction of the paper consists of, as data: what was run, and what came out.

``experiments.py`` says what to run, ``running.py`` runs it, ``claims.py`` checks the paper's claims on it,
``figures.py`` and ``report.py`` show it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from barymesh.history import History
from barymesh.support.points import Support

Floats = NDArray[np.float64]

TOPOLOGIES = ("complete", "erdos_renyi", "cycle", "star")
# the paper's three, and ours
RIVALS = ("a2dwb", "a2dwb_naive", "dcwb")
OURS = "sinkhorn"
LABELS = {
    "a2dwb": "A2DWB", "a2dwb_naive": "A2DWBN", "dcwb": "DCWB", "sinkhorn": "Sinkhorn (barymesh)",
    "sinkhorn_sampled": "Sinkhorn, from the same samples (barymesh)",
    "complete": "Complete", "erdos_renyi": "Erdős-Rényi", "cycle": "Cycle", "star": "Star",
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What all runs of an experiment share. ``step_factor``: the step is this times ``reg / lambda_max``, for every
    method that has one. ``samples``: draws of its measure that a node makes in an activation (M)."""

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
    """One method on one network. ``means``: the nodes' average estimate ``(n,)`` at some virtual times, NaN once it has
    diverged. ``status``: "finished", "converged" (all nodes stopped by themselves, and stay as they are) or "diverged"
    (the history ends before the duals were no longer finite)."""

    experiment: str
    topology: str
    method: str
    step: float | None
    history: History
    means: dict[float, Floats]
    seconds: float
    status: str = "finished"


@dataclass(frozen=True)
class Experiment:
    """An experiment with its runs, ``runs[topology, method]``. ``optimum``: the certified optimum of the dual objective
    lies in ``[optimum - gap, optimum]``; ``reference (n,)``: the true barycenter."""

    name: str
    title: str
    setting: Setting
    support: Support
    optimum: float
    gap: float
    reference: Floats
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """How the last values depend on one choice. Row k: with ``values[k]`` of ``parameter`` ("reg", "step", "M"), the
    method ends on the topology with ``dual[k]`` (dual objective minus optimum), ``consensus[k]``, ``feasibility[k]``
    and ``tv[k]``; NaN where it diverged."""

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
    """All of it."""

    experiments: dict[str, Experiment]
    sweeps: list[Sweep]
    quick: bool
