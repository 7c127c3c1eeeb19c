"""All benchmarks in one run. The results are written after each part, so that an interruption loses one part only."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from barymesh.errors import FileError, OptionError
from barymesh.io.atomic import replacing, write_text
from benchmarks.ctrl_c import noticing
from benchmarks.machine import machine
from benchmarks.page import page
from benchmarks.parts import Benchmark, Part

NAMES = (
    "start",
    "busy",
    "kernels",
    "exact",
    "debiased",
    "one_machine",
    "free_support",
    "simulation",
    "event_loop",
    "network",
    "methods",
    "masks",
    "unregularised",
    "private",
    "growth",
    "peers",
)
RESULTS, PAGE = "latest.json", "latest.md"
FIGURE_SIZE = (8.0, 5.0)

Say = Callable[[str], None]


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name, in the order of the page; each is loaded when it runs."""

    def loaded_when_run(name: str) -> Benchmark:
        def run(quick: bool, say: Say) -> Part:
            part: Part = import_module(f"benchmarks.{name}").run(quick, say)
            return part

        return run

    return {name: loaded_when_run(name) for name in NAMES}


def check_names(names: Iterable[str]) -> None:
    """Raise OptionError for the name of an unknown benchmark."""
    for name in names:
        if name not in NAMES:
            raise OptionError(f"There is no benchmark {name!r}; choose from {', '.join(NAMES)}.")


def stored_parts(folder: Path) -> dict[str, dict[str, Any]]:
    """The parts that are in the folder, by name."""
    path = folder / RESULTS
    try:
        parts = json.loads(path.read_text())["parts"]
        return {name: parts[name] for name in NAMES if name in parts}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path} is not a result of this benchmark ({type(error).__name__}: {error}). Move it away, or choose "
            "another folder with --output."
        ) from error


@dataclass
class SuiteOutcome:
    """The outcome of a run: the ``parts`` that are stored now, those that ``failed``, and whether Ctrl-C ended it."""

    parts: dict[str, dict[str, Any]]
    failed: list[str] = field(default_factory=list)
    interrupted: bool = False


def run_suite(chosen: Mapping[str, Benchmark], quick: bool, folder: Path, say: Say) -> SuiteOutcome:
    """Measure these parts and write them; the other parts in the folder are kept.

    A part that fails is named on the page, and the next one runs. Ctrl-C keeps the parts that are finished.
    """
    outcome = SuiteOutcome(stored_parts(folder))
    # so that a folder that cannot be written to fails before the work
    _write(outcome.parts, folder)
    for name, benchmark in chosen.items():
        say(f"{name} ...")
        began = time.monotonic()
        part, failure = Part(name, ""), ""
        try:
            part = _measured(benchmark, quick, say)
            figures = _draw(part, folder)
        except KeyboardInterrupt:
            outcome.interrupted = True
            say(f"Interrupted: {name} is not finished, the parts before it are kept.")
            break
        except ImportError as error:
            failure, figures = f"it needs a package that is not installed ({error}).", []
        except Exception as error:  # the failure of one part must not lose the others
            failure, figures = f"{type(error).__name__}: {error}", []
            outcome.failed.append(name)
        seconds = time.monotonic() - began
        outcome.parts[name] = _stored(part, figures, quick, seconds, failure)
        _write(outcome.parts, folder)
        say(f"{name}: {failure or f'{seconds:.0f} s'}")
    return outcome


def _measured(benchmark: Benchmark, quick: bool, say: Say) -> Part:
    """Run a benchmark. KeyboardInterrupt if Ctrl-C was pressed: what was cut short is no measurement."""
    with noticing() as pressed:

        def say_unless_pressed(line: str) -> None:
            if pressed():
                raise KeyboardInterrupt
            say(f"  {line}")

        part = benchmark(quick, say_unless_pressed)
        if pressed():
            raise KeyboardInterrupt
    return part


def _stored(part: Part, figures: list[str], quick: bool, seconds: float, failure: str) -> dict[str, Any]:
    """A part as it is kept in the file."""
    tables = [{"title": one.title, "text": one.text, "rows": [_plain(row) for row in one.rows]} for one in part.tables]
    return {
        "title": part.title,
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S"),
        "quick": quick,
        "seconds": seconds,
        "machine": machine(),
        "failed": failure,
        "text": part.text,
        "tables": [] if failure else tables,
        "figures": figures,
    }


def _plain(value: Any) -> Any:
    """A value for JSON: NumPy numbers as Python numbers, null for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _draw(part: Part, folder: Path) -> list[str]:
    """Draw and write the figures of a part; returns their file names."""
    from matplotlib.figure import Figure

    names = []
    for name, draw in part.figures.items():
        figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
        draw(figure.subplots())
        names.append(f"{name.removesuffix('.png')}.png")
        with replacing(folder / names[-1]) as file:
            figure.savefig(file, format="png", dpi=150)
    return names


def _write(parts: dict[str, dict[str, Any]], folder: Path) -> None:
    ordered = {name: parts[name] for name in NAMES if name in parts}
    write_text(folder / RESULTS, json.dumps({"parts": ordered}, indent=1, allow_nan=False) + "\n")
    write_text(folder / PAGE, page(ordered))
