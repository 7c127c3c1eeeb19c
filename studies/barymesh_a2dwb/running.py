"""Run a study: all its runs, side by side on the cores there are, each kept on disk as soon as it is there.

A study that was interrupted goes on where it stopped. What is found on disk is taken for a run only if its fingerprint
says that it was made with the same settings, data and program.
"""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import barymesh
from barymesh.engines.recorder import Recorder, Reference
from barymesh.errors import FileError, NotEnoughMemoryError, NumericalError
from barymesh.network import as_network
from barymesh.network.topology import Network
from barymesh.problem import Problem
from barymesh.resources import memory
from barymesh.resources.cores import available_cores, one_thread_each
from barymesh.engines.simulate import REFERENCE_ITERATIONS, REFERENCE_TOL, Options, build_simulation
from barymesh.status import Status
from barymesh_a2dwb.experiments import OURS_SAMPLED, SAMPLED, Case, Job, Plan
from barymesh_a2dwb.storage import (
    DATA,
    ENDS,
    FORMAT,
    Certified,
    load_study,
    read_reference,
    read_run,
    read_timing,
    write_reference,
    write_run,
    write_study,
    write_timing,
)
from barymesh_a2dwb.study import LABELS, OURS, RIVALS, Floats, Run, Study, Sweep

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

# what one process may need, compiled kernels and the mail of a complete network included
BYTES_A_WORKER = 2**29
# parts of the program that draw what came out, and have no influence on it
DRAWING = ("paper", "report", "cli.py")
# set in a worker: whether the study was interrupted
_interrupted: Event | None = None

Task = Callable[[], Any]


# ---- one run


def find_reference(case: Case, reg: float) -> Certified:
    """The true barycenter of the experiment with this reg, from the centralised solver, and its certificate."""
    from barymesh.api import solve_problem

    began = time.perf_counter()
    problem = _problem(case, reg)
    found = solve_problem(problem, max_iter=REFERENCE_ITERATIONS, tol=REFERENCE_TOL, callback=_asked_to_stop)
    if found.status in (Status.INTERRUPTED, Status.STOPPED):
        raise KeyboardInterrupt
    # the dual objective is minimised: -value is a lower bound of its optimum, and gap above that is an upper one
    optimum = found.gap - found.value
    return Certified(problem.support, found.weights, optimum, found.gap, time.perf_counter() - began)


def run_job(case: Case, job: Job, known: Certified) -> Run:
    """One run in virtual time. Divergence is an outcome like others: the history up to there is kept."""
    began = time.perf_counter()
    problem = _problem(case, job.reg)
    network = _network(job.topology, case.setting.nodes, case.setting.seed)
    step = job.step_factor * job.reg / network.lambda_max if job.method in RIVALS else None
    options = Options(
        method=OURS if job.method == OURS_SAMPLED else job.method,
        step=step,
        batch=job.samples if job.method in SAMPLED else None,
        record_every=case.record_every(job),
    )
    recorder = Recorder(problem, network, Reference(known.weights, known.optimum), snapshots=False)
    simulation = build_simulation(problem, network, options.checked(), recorder)
    means: dict[float, Floats] = dict.fromkeys(case.times, np.full(problem.support.size, np.nan))
    status = "finished"
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            for moment in sorted({*case.times, case.setting.duration}):
                status = simulation.run(moment, _asked_to_stop)
                if status in ("interrupted", "stopped"):
                    raise KeyboardInterrupt
                if moment in means:
                    means[moment] = problem.weights @ recorder.oracle.value_and_gradient(simulation.duals())[1]
    except NumericalError:
        status = "diverged"
    seconds = time.perf_counter() - began
    return Run(job.experiment, job.topology, job.method, step, recorder.history, means, seconds, status)


def _problem(case: Case, reg: float) -> Problem:
    """With this reg; the usual one knows its atoms already, which take half a second to find for the Gaussians."""
    return case.problem if reg == case.problem.reg else replace(case.problem, reg=reg)


@lru_cache(maxsize=8)
def _network(topology: str, nodes: int, seed: int) -> Network:
    return as_network(topology, nodes, seed)


def _asked_to_stop(_: object) -> bool:
    return _interrupted is not None and _interrupted.is_set()


# ---- all of them


def run_study(plan: Plan, folder: str | Path, *, workers: int | None = None, progress: bool = False) -> Study:
    """Run what is not in the folder yet, and return all of it.

    ``workers``: runs carried out side by side, each on one core; by default as many as there are cores. It has no
    influence on the results. Ctrl-C raises KeyboardInterrupt; call again to go on.
    """
    folder = Path(folder)
    fingerprints = _fingerprints(plan)
    seconds = read_timing(folder)
    references, runs = _stored(plan, folder / DATA, fingerprints)
    missing = [key for key in plan.references() if key not in references]
    # the longest first, so that none is left alone at the end
    jobs = sorted(
        (job for job in plan.jobs() if job not in runs),
        key=lambda job: -expected_seconds(plan.cases[job.experiment], job),
    )
    hands = min(workers or cores(), max(1, len(missing) + len(jobs)))
    with _pool(hands) as pool, _following(plan, missing, jobs, hands, progress) as finished:
        tasks: dict[Any, Task] = {key: partial(find_reference, plan.cases[key[0]], key[1]) for key in missing}
        for key, found in _carried_out(tasks, pool):
            file = plan.reference_file(*key)
            write_reference(folder / DATA / file, fingerprints[file], found)
            references[key], seconds[file] = found, found.seconds
            write_timing(folder, seconds)
            finished(key, found.seconds)
        tasks = {
            job: partial(run_job, plan.cases[job.experiment], job, references[job.experiment, job.reg]) for job in jobs
        }
        for job, run in _carried_out(tasks, pool):
            file = plan.file(job)
            write_run(folder / DATA / file, fingerprints[file], run)
            runs[job], seconds[file] = run, run.seconds
            write_timing(folder, seconds)
            finished(job, run.seconds)
    write_study(folder, plan, fingerprints, _sweeps(plan, runs))
    return load_study(folder)


def _stored(
    plan: Plan, data: Path, fingerprints: Mapping[str, str]
) -> tuple[dict[tuple[str, float], Certified], dict[Job, Run]]:
    """What is there already, and was made with the same settings."""
    references: dict[tuple[str, float], Certified] = {}
    runs: dict[Job, Run] = {}
    for key in plan.references():
        file = plan.reference_file(*key)
        if (found := _if_there(partial(read_reference, data / file, fingerprints[file]))) is not None:
            references[key] = found
    for job in plan.jobs():
        file = plan.file(job)
        names = (job.experiment, job.topology, job.method)
        if (run := _if_there(partial(read_run, data / file, fingerprints[file], *names))) is not None:
            runs[job] = run
    return references, runs


def _if_there(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except FileError:
        return None


def _sweeps(plan: Plan, runs: Mapping[Job, Run]) -> Iterator[Sweep]:
    """The values the runs end with, line by line."""
    for variation in plan.variations:
        for topology in variation.topologies:
            for method in variation.methods:
                line = [runs[job] for job in plan.varied(variation, topology, method)]
                ends = {name: np.array([_last(run, column) for run in line]) for name, column in ENDS.items()}
                yield Sweep(variation.parameter, topology, method, np.array(variation.values, dtype=float), **ends)


def _last(run: Run, column: str) -> float:
    return float("nan") if run.status == "diverged" else float(run.history[column][-1])


# ---- fingerprints


def _fingerprints(plan: Plan) -> dict[str, str]:
    """By file, what tells apart whatever could come out differently."""
    program = _program()
    found: dict[str, str] = {}
    for case in plan.cases.values():
        common = {"format": FORMAT, "program": program, "measures": _measures(case), "times": case.times}
        shared = common | asdict(case.setting)
        for experiment, reg in plan.references():
            if experiment == case.name:
                found[plan.reference_file(experiment, reg)] = _digest(json.dumps(shared | {"reg": reg}).encode())
        for job in plan.jobs():
            if job.experiment == case.name:
                found[plan.file(job)] = _digest(json.dumps(shared | asdict(job)).encode())
    return found


def _measures(case: Case) -> str:
    """The measures and the support."""
    problem = case.problem
    parts = [problem.support.points, problem.weights]
    parts += [array for atoms in problem.atoms for array in (atoms.points, atoms.weights)]
    return _digest(*(np.ascontiguousarray(part).tobytes() for part in parts))


@lru_cache(maxsize=1)
def _program() -> str:
    """The source text of all that computes: results of an older program are not mixed with those of a newer one."""
    root = Path(barymesh.__file__).parent
    files = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in DRAWING]
    return _digest(*(path.read_bytes() for path in sorted(files)))


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


# ---- side by side


def cores() -> int:
    """Cores this process may use, as far as there is memory for a worker on each."""
    free = memory.available_bytes()
    return max(1, available_cores() if free is None else min(available_cores(), free // BYTES_A_WORKER))


@contextmanager
def _pool(workers: int) -> Iterator[Executor | None]:
    """Processes with one thread each: runs do not wait for one another, as the threads of one run would. None for one
    worker, which is this process."""
    if workers == 1:
        import numba

        threads = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            yield None
        finally:
            numba.set_num_threads(threads)
        return
    from multiprocessing import get_context

    # not a fork: kernels of this process may be running on threads
    context = get_context("spawn")
    asked = context.Event()
    with one_thread_each():
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_enter, initargs=(asked,))
        try:
            yield pool
        except BaseException:
            asked.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _enter(asked: Event) -> None:
    global _interrupted
    _interrupted = asked


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started within the block do not hear Ctrl-C, which a terminal sends to all: they are told to stop."""
    try:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:
        # not the main thread, which alone may do so
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _carried_out(tasks: Mapping[Any, Task], pool: Executor | None) -> Iterator[tuple[Any, Any]]:
    """Every task's name and outcome, as they come."""
    if pool is None:
        for name, task in tasks.items():
            yield name, task()
        return
    with _deaf():
        names = {pool.submit(task): name for name, task in tasks.items()}
    try:
        for future in as_completed(names):
            yield names[future], future.result()
    except BrokenProcessPool as error:
        raise NotEnoughMemoryError(
            "A process of the study ended at once, most likely for want of memory. What was finished is kept: run the "
            "same command again, with fewer --workers."
        ) from error


# ---- how long it will take


@dataclass
class Forecast:
    """The time left: a rough cost of each run, corrected by how long finished ones of the same kind took."""

    waiting: dict[Any, float]
    workers: int
    # by kind: seconds taken, seconds expected
    seen: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    def finished(self, what: Any, seconds: float) -> None:
        """Learn from what took so many seconds."""
        expected = self.waiting.pop(what)
        for kind in (_kind(what), ("", "")):
            taken = self.seen.setdefault(kind, [0.0, 0.0])
            taken[0] += seconds
            taken[1] += expected
        self.since = time.monotonic()

    def left(self) -> float:
        """Seconds, of the wall clock, until all is done."""
        work = sum(expected * self._correction(_kind(what)) for what, expected in self.waiting.items())
        return max(0.0, work / self.workers - (time.monotonic() - self.since))

    def _correction(self, kind: tuple[str, str]) -> float:
        taken, expected = self.seen.get(kind) or self.seen.get(("", "")) or (1.0, 1.0)
        return taken / expected


def _kind(what: Job | tuple[str, float]) -> tuple[str, str]:
    return (what.experiment, what.method) if isinstance(what, Job) else (what[0], "reference")


def expected_seconds(case: Case, what: Job | tuple[str, float]) -> float:
    """Roughly, on one core of 2020: getting ready, activations times what each looks at, and the records."""
    size, setting = case.problem.support.size, case.setting
    if not isinstance(what, Job):
        return 1.0 + 5e-6 * setting.nodes * size
    records = 1e-5 * setting.nodes * setting.duration / case.record_every(what)
    # the synchronous one makes a round in the second that its slowest message takes
    activations = setting.nodes * setting.duration * (1 if what.method == "dcwb" else 5)
    if what.method not in RIVALS:
        return 0.1 + activations * (4e-5 if what.method == OURS_SAMPLED else 2e-5) + records
    heard = 1e-10 * setting.nodes if what.topology == "complete" and what.method != "dcwb" else 0.0
    return 0.1 + activations * size * (2e-9 * what.samples + heard) + records


@contextmanager
def _following(
    plan: Plan, references: list[tuple[str, float]], jobs: list[Job], workers: int, show: bool
) -> Iterator[Callable[[Any, float], None]]:
    """A function to call with what is finished and the seconds it took; it draws a bar that tells the time left."""
    every: list[Any] = [*references, *jobs]
    names = {what: _kind(what)[0] for what in every}
    waiting = {what: expected_seconds(plan.cases[name], what) for what, name in names.items()}
    forecast = Forecast(waiting, workers)
    if not show:
        yield forecast.finished
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Any) -> Text:
            return Text(in_words(forecast.left()) + " left")

    known = len(plan.references()) + len(plan.jobs()) - len(every)
    fixed, shrinking = Column(no_wrap=True), Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (
        BarColumn(20),
        MofNCompleteColumn(table_column=fixed),
        TextColumn("runs,", table_column=fixed),
        TimeLeft(table_column=fixed),
        TextColumn("{task.description}", table_column=shrinking),
    )
    with Progress(*columns, console=Console(stderr=True), transient=False, expand=True) as bar:
        task = bar.add_task("", total=known + len(every), completed=known)

        def finished(what: Any, seconds: float) -> None:
            forecast.finished(what, seconds)
            bar.update(task, advance=1, description=_described(plan, what))

        yield finished


def _described(plan: Plan, what: Job | tuple[str, float]) -> str:
    if isinstance(what, Job):
        return f"{plan.cases[what.experiment].title}, {LABELS[what.topology]}, {LABELS[what.method]}"
    return f"{plan.cases[what[0]].title}, true barycenter"


def in_words(seconds: float) -> str:
    """About how long: 40 s, 7 min."""
    return f"{5 * round(seconds / 5):d} s" if seconds < 90 else f"{round(seconds / 60):d} min"
