"""The plan of a study: the paper's two experiments, and the choices that the paper leaves open.

The paper states neither ``reg`` nor the step nor M. They are chosen once, by rule, for all methods, and not tuned:

- ``reg`` is 0.1 for the Gaussians and 0.004 for the images, whose pixels lie on the unit square: about ten and three
  times the squared distance of neighbouring support points, so that the barycenter is smooth but not blurred. The 8x8
  digits of a quick study have pixels farther apart, and 0.02.
- The step is ``step_factor * reg / lambda_max`` with step_factor 1: 1/L for the smoothness ``L = lambda_max / reg`` of
  the dual. Sinkhorn has no step.
- M, the fresh samples a gradient is estimated from, is 10: few enough to be cheap.

The sweeps show how the outcome depends on these. The step is varied in every experiment, so that each method can also
be shown with its best step: the one with which it ends closest to the true barycenter. Powers of 4 are tried, in a
range of each method's own: with the default seed the best lies inside, for every problem and network. Everything else
is the paper's: delays, schedule, 500 nodes, 200 virtual seconds. The paper does not state p of the Erdos-Renyi network;
it is 2 log(m) / m.

A2DWB's bias is shown apart, on a network so small that it can run for long: exact gradients, and a time that
grows as the root of 1/step, as that of an accelerated method does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from barymesh.checks import whole_number
from barymesh.errors import OptionError
from barymesh.problem import Problem
from barymesh_a2dwb.study import METHODS, OURS, OURS_SAMPLED, RIVALS, TOPOLOGIES, Setting

SAMPLES, STEP_FACTOR = 10, 1.0
MEANS, DEVIATIONS, SUPPORT = (-4.0, 4.0), (0.1, 0.6), (-5.0, 5.0, 100)
REG_GAUSSIANS, REG_MNIST, REG_SMALL_DIGITS = 0.1, 0.004, 0.02
# a sweep shows how its runs end; this many records find out in time whether they diverge
SWEEP_RECORDS = 10
# the runs that show A2DWB's bias: their steps, and the numbers of nodes and of records
BIAS, BIAS_STEPS, BIAS_NODES, BIAS_RECORDS = "bias", (16.0, 4.0, 1.0, 0.25), 20, 100
# as many samples stand for the exact gradient
EXACT = 0
# the field of a Job that a sweep's parameter stands for
VARIED = {"reg": "reg", "step": "step_factor", "M": "samples"}


class Which(StrEnum):
    """The experiments a user can ask for."""

    GAUSSIAN = "gaussian"
    MNIST = "mnist"
    ALL = "all"


@dataclass(frozen=True)
class Job:
    """One run: a method on a topology with these choices, recorded every ``record_every`` virtual seconds. ``samples``
    may be ``EXACT``."""

    experiment: str
    topology: str
    method: str
    reg: float
    step_factor: float
    samples: int
    record_every: float
    duration: float


@dataclass(frozen=True)
class Variation:
    """A sweep over the ``values`` of one choice: ``parameter`` is "reg", "step" (the step factor) or "M"."""

    parameter: str
    values: tuple[float, ...]
    topologies: tuple[str, ...]
    methods: tuple[str, ...]


@dataclass(frozen=True)
class StudySize:
    """The size of a study. ``times``: the virtual seconds at which the nodes' average estimate is kept.
    ``variations``: all that is varied on the Gaussians; ``image_steps``: the steps tried on images. ``bias_seconds``:
    the time that A2DWB has to come to rest with the step 1."""

    nodes: int
    duration: float
    times: tuple[float, ...]
    digits: tuple[int, ...]
    record_gaussians: float
    record_images: float
    variations: tuple[Variation, ...]
    image_steps: tuple[Variation, ...]
    bias_seconds: float


def _steps(asynchronous: range, synchronous: range) -> tuple[Variation, ...]:
    """Powers of 4. The synchronous method, whose gradients are fresh, needs larger ones."""
    return tuple(
        Variation("step", tuple(4.0**power for power in powers), TOPOLOGIES, methods)
        for powers, methods in ((asynchronous, RIVALS[:2]), (synchronous, RIVALS[2:]))
    )


def _variations(
    steps: tuple[Variation, ...], regs: tuple[float, ...], samples: tuple[int, ...]
) -> tuple[Variation, ...]:
    return (
        *steps,
        Variation("reg", regs, ("erdos_renyi",), (*RIVALS, OURS)),
        Variation("M", samples, ("erdos_renyi",), (*RIVALS, OURS_SAMPLED)),
    )


STEPS, QUICK_STEPS = _steps(range(-3, 4), range(-1, 8)), _steps(range(-6, 4), range(-4, 6))
PAPER = StudySize(
    500, 200.0, (10.0, 50.0, 200.0), (2, 3, 5, 7), 1.0, 2.0,
    _variations(STEPS, (0.02, 0.05, 0.1, 0.5), (1, 10, 100)), STEPS, 800.0,
)  # fmt: skip
QUICK = StudySize(
    20, 200.0, (10.0, 50.0, 200.0), (3,), 2.0, 2.0, _variations(QUICK_STEPS, (0.05, 0.1), (1, 10)), QUICK_STEPS, 800.0
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """An experiment to run: its problem, what all runs share, the methods, and the times at which to keep the average
    estimate."""

    name: str
    title: str
    setting: Setting
    problem: Problem
    methods: tuple[str, ...]
    times: tuple[float, ...]

    def job(self, topology: str, method: str) -> Job:
        """The run with the choices of the setting."""
        chosen = self.setting
        choices = (chosen.reg, chosen.step_factor, chosen.samples, chosen.record_every, chosen.duration)
        return Job(self.name, topology, method, *choices)

    def jobs(self) -> list[Job]:
        """Every method on every topology."""
        return [self.job(topology, method) for topology in TOPOLOGIES for method in self.methods]


@dataclass(frozen=True, eq=False)
class StudyPlan:
    """A study to run. The ``variations`` are those of the Gaussian experiment; ``steps`` are those tried, by
    experiment; ``bias`` is the problem on which A2DWB's bias is shown."""

    cases: dict[str, ExperimentPlan]
    variations: tuple[Variation, ...]
    steps: dict[str, tuple[Variation, ...]]
    bias: ExperimentPlan | None
    quick: bool

    def case(self, name: str) -> ExperimentPlan:
        """The experiment of this name, or the problem of the bias."""
        return self.bias if self.bias is not None and name == BIAS else self.cases[name]

    def jobs(self) -> list[Job]:
        """Every run once: the values of a sweep include that of the setting, whose run belongs to the experiment."""
        main = [job for case in self.cases.values() for job in case.jobs()]
        swept = [
            job
            for variation in self.variations
            for topology in variation.topologies
            for method in variation.methods
            for job in self.varied(variation, topology, method)
        ]
        tried = [job for jobs in self.trials().values() for job in jobs]
        return list(dict.fromkeys([*main, *swept, *tried, *self.bias_jobs()]))

    def trials(self) -> dict[tuple[str, str, str], list[Job]]:
        """The runs from which the best step is chosen, by experiment, topology and method."""
        return {
            (name, topology, method): [
                replace(self.cases[name].job(topology, method), step_factor=step) for step in tried.values
            ]
            for name, variations in self.steps.items()
            for tried in variations
            for topology in tried.topologies
            for method in tried.methods
        }

    def bias_jobs(self) -> list[Job]:
        """The runs that show A2DWB's bias."""
        if self.bias is None:
            return []
        usual = self.bias.job("erdos_renyi", RIVALS[0])
        seconds = {step: self.bias.setting.duration / step**0.5 for step in BIAS_STEPS}
        return [
            replace(usual, step_factor=step, duration=time, record_every=time / BIAS_RECORDS)
            for step, time in seconds.items()
        ]

    def varied(self, variation: Variation, topology: str, method: str) -> list[Job]:
        """The runs of one line of a sweep, one for each value."""
        case = self.cases["gaussian"]
        usual = case.job(topology, method)
        field = VARIED[variation.parameter]
        kind = type(getattr(usual, field))
        jobs = [replace(usual, **{field: kind(value)}) for value in variation.values]
        if variation.parameter == "step":
            return jobs
        rarely = case.setting.duration / SWEEP_RECORDS
        return [job if job == usual else replace(job, record_every=rarely) for job in jobs]

    def references(self) -> list[tuple[str, float]]:
        """The problems whose true barycenters are needed, as (experiment, reg)."""
        return list(dict.fromkeys((job.experiment, job.reg) for job in self.jobs()))

    def file(self, job: Job) -> str:
        """The file of a run, relative to the folder of the data and without a suffix."""
        name = f"{job.experiment}/{job.topology}-{job.method}"
        if job == self.case(job.experiment).job(job.topology, job.method):
            return name
        return f"sweeps/{name}-reg{job.reg:g}-step{job.step_factor:g}-M{job.samples}"

    def reference_file(self, experiment: str, reg: float) -> str:
        """The file of a true barycenter, likewise."""
        if reg == self.case(experiment).setting.reg:
            return f"{experiment}/reference"
        return f"sweeps/{experiment}/reference-reg{reg:g}"


def plan_study(
    which: str, *, quick: bool = False, seed: int = 0, sweeps: bool = True, mnist: str | Path | None = None
) -> StudyPlan:
    """The plan for "gaussian", "mnist" or "all".

    ``mnist``: where the images are, as for ``datasets.mnist.mnist``. A quick study takes the 8x8 digits of scikit-learn
    unless ``mnist`` is given.
    """
    if which not in list(Which):
        raise OptionError(f"There is no experiment {which!r}; choose one of {', '.join(Which)}.")
    seed = whole_number("seed", seed, 0)
    scale = QUICK if quick else PAPER
    cases = []
    if which != Which.MNIST:
        cases.append(_gaussians(scale, seed))
    if which != Which.GAUSSIAN:
        small = quick and mnist is None
        cases += [_digit(scale, digit, seed, None if small else mnist or "auto") for digit in scale.digits]
    named = {case.name: case for case in cases}
    if not sweeps:
        return StudyPlan(named, (), {}, None, quick)
    variations = scale.variations if "gaussian" in named else ()
    on_gaussians = tuple(one for one in variations if one.parameter == "step")
    steps = {name: on_gaussians if name == "gaussian" else scale.image_steps for name in named}
    return StudyPlan(named, variations, steps, _bias(scale, seed) if "gaussian" in named else None, quick)


def _bias(scale: StudySize, seed: int) -> ExperimentPlan:
    case = _gaussians(replace(scale, nodes=BIAS_NODES, duration=scale.bias_seconds, times=()), seed)
    return replace(case, name=BIAS, title="A2DWB's bias", setting=replace(case.setting, samples=EXACT))


def _gaussians(scale: StudySize, seed: int) -> ExperimentPlan:
    from barymesh.cli.config import Gaussians

    measures = Gaussians(count=scale.nodes, mean=list(MEANS), std=list(DEVIATIONS), seed=seed).draw()
    low, high, count = SUPPORT
    problem = Problem.create(measures, np.linspace(low, high, count), reg=REG_GAUSSIANS, seed=seed)
    data = (
        f"normal distributions, means uniform in [{MEANS[0]:g}, {MEANS[1]:g}], deviations in "
        f"[{DEVIATIONS[0]:g}, {DEVIATIONS[1]:g}]; {count} support points on [{low:g}, {high:g}]"
    )
    setting = _setting(scale, scale.record_gaussians, REG_GAUSSIANS, seed, data)
    return ExperimentPlan("gaussian", "Gaussian distributions", setting, problem, METHODS, scale.times)


def _digit(scale: StudySize, digit: int, seed: int, source: str | Path | None) -> ExperimentPlan:
    """Images of one digit: those of MNIST, or without a source the small ones of scikit-learn, under another name."""
    if source is None:
        from barymesh.datasets.digits import small_digits

        found, reg, name, title = small_digits(digit, scale.nodes), REG_SMALL_DIGITS, "digits", "8x8 digits"
    else:
        from barymesh.datasets.mnist import mnist

        found, reg, name, title = mnist(digit, scale.nodes, source), REG_MNIST, "mnist", "MNIST"
    problem = Problem.create(found.images, reg=reg, seed=seed)
    setting = _setting(scale, scale.record_images, reg, seed, f"images of the digit {digit}: {found.source}")
    return ExperimentPlan(f"{name}-{digit}", f"{title}, digit {digit}", setting, problem, (*RIVALS, OURS), scale.times)


def _setting(scale: StudySize, record_every: float, reg: float, seed: int, data: str) -> Setting:
    return Setting(scale.nodes, scale.duration, record_every, reg, SAMPLES, STEP_FACTOR, seed, data)
