"""The same computation alone, and while another process keeps one of the cores busy.

A process computes again and again, for some time alone and for some time beside a loop that does nothing else than
run on one core, in turns. Threads that wait for one another while spinning would be many times slower then; on two
cores, half of the time is what is left.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from barymesh.resources.cores import available_cores
from benchmarks.parts import Part, Row, Table
from benchmarks.programs import IMAGES, IMPORTS, NETWORK, TWO_GAUSSIANS, Program, running, write_images
from benchmarks.tables import in_line

TARGET = 2.2
TASKS = {
    "two Gaussians": TWO_GAUSSIANS,
    "100 images of 28 x 28": IMAGES.format(count=100),
    "the README's network": NETWORK,
}
TURNS, QUICK_TURNS = 5, 1
# the least seconds of one turn
TURN, QUICK_TURN = 2.0, 0.3
# answers every line, a number of seconds, with the times of the calls that begin within them
PROGRAM = """
import sys, time
def task():
    return {task}
task()
print("ready", flush=True)
for line in sys.stdin:
    times, end = [], time.perf_counter() + float(line)
    while time.perf_counter() < end:
        began = time.perf_counter()
        task()
        times.append(time.perf_counter() - began)
    print(*times, flush=True)
"""
BURN = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print("burning", flush=True)
while True:
    pass
"""
TEXT = (
    "Milliseconds of a call, the median of all calls in {turns} turns of {seconds:g} s, on {cores} cores. *ratio*: of "
    "the medians, *ratio of the best*: of the shortest calls."
)


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """All tasks."""
    turns, seconds = (QUICK_TURNS, QUICK_TURN) if quick else (TURNS, TURN)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder)
        for title, task in TASKS.items():
            rows.append({"task": title, **_ratio(task, folder, turns, seconds)})
            say(in_line(rows[-1]))
    text = TEXT.format(turns=turns, seconds=seconds, cores=available_cores())
    return Part("Beside a busy process", (__doc__ or "").partition("\n\n")[2], [Table("", text, rows)])


def _ratio(task: str, folder: Path, turns: int, seconds: float) -> Row:
    """The columns of a task."""
    with running(["-c", IMPORTS + PROGRAM.format(task=task)], folder) as program:
        program.read()
        alone: list[float] = []
        beside: list[float] = []
        for _ in range(turns):
            alone += _times(program, seconds)
            with burning(folder):
                beside += _times(program, seconds)
    return {
        "ms alone": 1e3 * statistics.median(alone),
        "ms beside": 1e3 * statistics.median(beside),
        "ratio": statistics.median(beside) / statistics.median(alone),
        "target": TARGET,
        "ratio of the best": min(beside) / min(alone),
    }


def _times(program: Program, seconds: float) -> list[float]:
    return [float(one) for one in program.ask(str(seconds)).split()]


@contextmanager
def burning(folder: Path) -> Iterator[None]:
    """One of the cores is busy with something else until the block ends."""
    with running(["-c", BURN], folder) as program:
        program.read()
        yield
