"""Run a study: all its runs, in parallel on the available cores, each written to disk as soon as it is finished.

An interrupted study continues where it stopped: a run on disk is used if its fingerprint says that it was made with the
same settings, data and source.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from barymesh.core import kernels
from barymesh.errors import FileError, NotEnoughMemoryError
from barymesh.resources import memory
from barymesh.resources.cores import available_cores, one_thread_each, set_threads
from barymesh_a2dwb.experiments import ExperimentPlan, Job, StudyPlan
from barymesh_a2dwb.fingerprints import fingerprints as fingerprints_of
from barymesh_a2dwb.runs import Certified, find_reference, run_job
from barymesh_a2dwb.storage import (
    DATA,
    load_study,
    read_reference,
    read_run,
    read_timing,
    write_reference,
    write_run,
    write_study,
    write_timing,
)
from barymesh_a2dwb.study import LABELS, MEASURES, OURS_SAMPLED, RIVALS, Run, Study, Sweep, best_of, last_of

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

# the memory that one process may need, with its libraries and the messages in flight on a complete network
BYTES_A_WORKER = 2**29
# of a worker process: set when the study is interrupted
_interrupted: Event | None = None

Task = Callable[[], Any]


def _asked_to_stop(_: object) -> bool:
    return _interrupted is not None and _interrupted.is_set()


def run_study(plan: StudyPlan, folder: str | Path, *, workers: int | None = None, progress: bool = False) -> Study:
    """Make the runs that are not in the folder yet, and return the whole study.

    ``workers``: the number of parallel runs, each on one core; by default one for each core. It has no influence on the
    results. Ctrl-C raises KeyboardInterrupt; call again to continue.
    """
    folder = Path(folder)
    fingerprints = fingerprints_of(plan)
    seconds = read_timing(folder)
    references, runs = _stored(plan, folder / DATA, fingerprints)
    missing = [key for key in plan.references() if key not in references]
    # the longest first, so that none is left alone at the end
    jobs = sorted(
        (job for job in plan.jobs() if job not in runs),
        key=lambda job: -expected_seconds(plan.case(job.experiment), job),
    )
    hands = min(workers or cores(), max(1, len(missing) + len(jobs)))
    with _pool(hands) as pool, _following(plan, missing, jobs, hands, progress) as finished:
        tasks: dict[Any, Task] = {
            key: partial(find_reference, plan.case(key[0]), key[1], _asked_to_stop) for key in missing
        }
        for key, found in _carried_out(tasks, pool):
            file = plan.reference_file(*key)
            write_reference(folder / DATA / file, fingerprints[file], found)
            references[key], seconds[file] = found, found.seconds
            write_timing(folder, seconds)
            finished(key, found.seconds)
        tasks = {
            job: partial(run_job, plan.case(job.experiment), job, references[job.experiment, job.reg], _asked_to_stop)
            for job in jobs
        }
        for job, run in _carried_out(tasks, pool):
            file = plan.file(job)
            write_run(folder / DATA / file, fingerprints[file], run)
            runs[job], seconds[file] = run, run.seconds
            write_timing(folder, seconds)
            finished(job, run.seconds)
    best = (next(j for j in jobs if runs[j] is best_of(runs[k] for k in jobs)) for jobs in plan.trials().values())
    write_study(folder, plan, fingerprints, _sweeps(plan, runs), best)
    return load_study(folder)


def _stored(
    plan: StudyPlan, data: Path, fingerprints: Mapping[str, str]
) -> tuple[dict[tuple[str, float], Certified], dict[Job, Run]]:
    """The references and runs on disk that have the right fingerprints."""
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


def _sweeps(plan: StudyPlan, runs: Mapping[Job, Run]) -> Iterator[Sweep]:
    """The values that the runs of every sweep end with."""
    for variation in plan.variations:
        for topology in variation.topologies:
            for method in variation.methods:
                line = [runs[job] for job in plan.varied(variation, topology, method)]
                ends = {
                    name: np.array([last_of(run, column) for run in line]) for name, (column, _) in MEASURES.items()
                }
                yield Sweep(variation.parameter, topology, method, np.array(variation.values, dtype=float), **ends)


# ---- in parallel


def cores() -> int:
    """The cores that this process may use, or fewer if there is not enough memory for a worker on each."""
    free = memory.available_bytes()
    return max(1, available_cores() if free is None else min(available_cores(), free // BYTES_A_WORKER))


@contextmanager
def _pool(workers: int) -> Iterator[Executor | None]:
    """Processes with one thread each: runs do not wait for one another, as the threads of one run would. None for one
    worker: then this process does the work."""
    if workers == 1:
        threads = kernels.threads()
        set_threads(1)
        try:
            yield None
        finally:
            set_threads(threads)
        return
    from multiprocessing import get_context

    # not a fork: other threads of this process may be computing
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
def _interrupt_ignored() -> Iterator[None]:
    """Processes started within the block ignore Ctrl-C, which a terminal sends to all; an event stops them."""
    try:
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:
        # only the main thread may set signal handlers
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _carried_out(tasks: Mapping[Any, Task], pool: Executor | None) -> Iterator[tuple[Any, Any]]:
    """Every task's name and outcome, in the order in which they finish."""
    if pool is None:
        for name, task in tasks.items():
            yield name, task()
        return
    with _interrupt_ignored():
        names = {pool.submit(task): name for name, task in tasks.items()}
    try:
        for future in as_completed(names):
            yield names[future], future.result()
    except BrokenProcessPool as error:
        raise NotEnoughMemoryError(
            "A process of the study was killed, most likely because memory ran out. Finished runs are kept: run the "
            "same command again, with fewer --workers."
        ) from error


# ---- time left


@dataclass
class Forecast:
    """The time left: a rough cost of each run, corrected by the time that finished runs of the same kind took."""

    waiting: dict[Any, float]
    workers: int
    # by kind: seconds taken, seconds expected
    seen: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    def finished(self, what: Any, seconds: float) -> None:
        """Note that a run took this many seconds."""
        expected = self.waiting.pop(what)
        for kind in (_kind(what), ("", "")):
            taken = self.seen.setdefault(kind, [0.0, 0.0])
            taken[0] += seconds
            taken[1] += expected
        self.since = time.monotonic()

    def left(self) -> float:
        """Seconds of the wall clock until all runs are finished."""
        work = sum(expected * self._correction(_kind(what)) for what, expected in self.waiting.items())
        return max(0.0, work / self.workers - (time.monotonic() - self.since))

    def _correction(self, kind: tuple[str, str]) -> float:
        taken, expected = self.seen.get(kind) or self.seen.get(("", "")) or (1.0, 1.0)
        return taken / expected


def _kind(what: Job | tuple[str, float]) -> tuple[str, str]:
    return (what.experiment, what.method) if isinstance(what, Job) else (what[0], "reference")


def expected_seconds(case: ExperimentPlan, what: Job | tuple[str, float]) -> float:
    """A rough estimate for one core of 2020: preparation, activations times the numbers that each reads, records."""
    size, setting = case.problem.support.size, case.setting
    if not isinstance(what, Job):
        return 1.0 + 5e-6 * setting.nodes * size
    records = 1e-5 * setting.nodes * what.duration / what.record_every
    # the synchronous method makes one round in the second that its slowest message takes
    activations = setting.nodes * what.duration * (1 if what.method == "dcwb" else 5)
    if what.method not in RIVALS:
        return 0.1 + activations * (4e-5 if what.method == OURS_SAMPLED else 2e-5) + records
    received = 1e-10 * setting.nodes if what.topology == "complete" and what.method != "dcwb" else 0.0
    return 0.1 + activations * size * (2e-9 * what.samples + received) + records


@contextmanager
def _following(
    plan: StudyPlan, references: list[tuple[str, float]], jobs: list[Job], workers: int, show: bool
) -> Iterator[Callable[[Any, float], None]]:
    """A function to call with each finished run and its seconds. It draws a progress bar with the time left."""
    every: list[Any] = [*references, *jobs]
    names = {what: _kind(what)[0] for what in every}
    waiting = {what: expected_seconds(plan.case(name), what) for what, name in names.items()}
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


def _described(plan: StudyPlan, what: Job | tuple[str, float]) -> str:
    if isinstance(what, Job):
        return f"{plan.case(what.experiment).title}, {LABELS[what.topology]}, {LABELS[what.method]}"
    return f"{plan.case(what[0]).title}, true barycenter"


def in_words(seconds: float) -> str:
    """A duration for readers, such as 40 s or 7 min."""
    return f"{5 * round(seconds / 5):d} s" if seconds < 90 else f"{round(seconds / 60):d} min"
