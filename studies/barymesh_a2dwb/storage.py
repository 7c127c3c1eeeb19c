"""A study on disk. The same seed gives the same files in ``data/``, bit for bit. Computing times are kept apart.

    data/study.json                          the settings, and the fingerprints of the runs
    data/<experiment>/reference.npz          the true barycenter, the certified optimum, the support
    data/<experiment>/<topology>-<method>    .csv: the history; .npz: all of the run
    data/sweeps/<experiment>/...             the further runs of the sweeps, in the same form
    data/sweeps/bias/...                     the runs that show A2DWB's bias
    data/sweeps.csv                          the values that they end with
    timing.json                              the seconds that each took

Every ``.npz`` holds the fingerprint of its run (see ``fingerprints.py``); a file with another fingerprint is not used.
It is written last, and atomically: if it exists, the run is complete.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import FileError
from barymesh.history import History
from barymesh.io.atomic import replacing, write_csv, write_text
from barymesh.support.grid import Grid
from barymesh.support.points import Support
from barymesh_a2dwb.experiments import BIAS, Job, StudyPlan
from barymesh_a2dwb.runs import Certified
from barymesh_a2dwb.study import MEASURES, Experiment, Run, Setting, Study, Sweep

DATA, TIMING = "data", "timing.json"
MANIFEST, SWEEPS = "study.json", "sweeps.csv"
# raise it when the content of the files changes: it is part of every fingerprint
FORMAT = 3


# ---- one run, one reference


def write_run(target: Path, fingerprint: str, run: Run) -> None:
    """Write ``target.csv`` and ``target.npz``."""
    run.history.to_csv(_with(target, ".csv"))
    arrays: dict[str, NDArray[Any]] = {
        "step": np.array(np.nan if run.step is None else run.step),
        "step_factor": np.array(np.nan if run.step_factor is None else run.step_factor),
        "status": np.array(run.status),
        "times": np.array(list(run.means)),
        "means": np.array(list(run.means.values())),
    }
    columns = {f"history_{name}": column for name, column in run.history.columns.items()}
    _write_arrays(_with(target, ".npz"), fingerprint, arrays | columns)


def read_run(target: Path, fingerprint: str, experiment: str, topology: str, method: str) -> Run:
    """Read what ``write_run`` wrote. FileError if it is missing, damaged, or has another fingerprint."""
    arrays = _read_arrays(_with(target, ".npz"), fingerprint)
    step, factor = (float(arrays[name]) for name in ("step", "step_factor"))
    columns = {name.removeprefix("history_"): a for name, a in arrays.items() if name.startswith("history_")}
    return Run(
        experiment=experiment,
        topology=topology,
        method=method,
        step=None if np.isnan(step) else step,
        history=History(columns),
        means=dict(zip(arrays["times"].tolist(), arrays["means"], strict=True)),
        seconds=float("nan"),
        status=str(arrays["status"]),
        step_factor=None if np.isnan(factor) else factor,
    )


def write_reference(target: Path, fingerprint: str, found: Certified) -> None:
    """Write ``target.npz``."""
    grid = found.support.grid
    shape: dict[str, NDArray[Any]] = {} if grid is None else {"shape": np.array(grid.shape)}
    arrays = {"weights": found.weights, "points": found.support.points}
    numbers = {"optimum": np.array(found.optimum), "gap": np.array(found.gap)}
    _write_arrays(_with(target, ".npz"), fingerprint, shape | arrays | numbers)


def read_reference(target: Path, fingerprint: str) -> Certified:
    """Read what ``write_reference`` wrote. FileError as for a run."""
    arrays = _read_arrays(_with(target, ".npz"), fingerprint)
    points = arrays["points"]
    if "shape" in arrays:
        ends = (tuple(end.tolist()) for end in (points[0], points[-1]))
        support = Support.of_grid(Grid(tuple(arrays["shape"].tolist()), *ends))
    else:
        support = Support(points)
    return Certified(support, arrays["weights"], float(arrays["optimum"]), float(arrays["gap"]))


def _write_arrays(path: Path, fingerprint: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    with replacing(path) as file:
        np.savez(file, fingerprint=np.array(fingerprint), **arrays)  # type: ignore[arg-type]


def _read_arrays(path: Path, fingerprint: str) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        found = str(arrays.pop("fingerprint"))
    except FileNotFoundError as error:
        raise FileError(f"There is no {path}. Run the same 'barymesh paper' command again; it continues.") from error
    except Exception as error:  # zipfile, zlib and missing fields share no base
        raise FileError(f"{path} is damaged ({error}). Run the same 'barymesh paper' command again.") from error
    if found != fingerprint:
        raise FileError(f"{path} is of other settings, data or source. Run the same 'barymesh paper' command again.")
    return arrays


# ---- the whole study


def write_study(
    folder: Path, plan: StudyPlan, fingerprints: Mapping[str, str], sweeps: Iterable[Sweep], best: Iterable[Job]
) -> None:
    """Write the table of the sweeps, and the manifest: titles, settings, and the fingerprint of every file. ``best``:
    the runs with the best steps."""

    def entry(job: Job) -> dict[str, str]:
        file = plan.file(job)
        return {"topology": job.topology, "method": job.method, "file": file, "fingerprint": fingerprints[file]}

    chosen = list(best)
    experiments = {
        name: {
            "title": case.title,
            "setting": asdict(case.setting),
            "reference": fingerprints[plan.reference_file(name, case.setting.reg)],
            "runs": [entry(job) for job in case.jobs()],
            "best": [entry(job) for job in chosen if job.experiment == name],
        }
        for name, case in plan.cases.items()
    }
    rows = (
        (sweep.parameter, sweep.topology, sweep.method, *numbers)
        for sweep in sweeps
        for numbers in zip(*(getattr(sweep, name).tolist() for name in ("values", *MEASURES)), strict=True)
    )
    write_csv(folder / DATA / SWEEPS, ("parameter", "topology", "method", "value", *MEASURES), rows)
    bias = [entry(job) for job in plan.bias_jobs()]
    about = {"format": FORMAT, "quick": plan.quick, "experiments": experiments, "bias": bias}
    write_text(folder / DATA / MANIFEST, json.dumps(about, indent=1) + "\n")


def load_study(folder: str | Path) -> Study:
    """Read the study in a folder that 'barymesh paper' wrote."""
    data = Path(folder) / DATA
    try:
        about = json.loads((data / MANIFEST).read_text())
        if about["format"] != FORMAT:
            raise FileError(
                f"{data} has study format {about['format']}; this version reads format {FORMAT}. "
                "Run the 'barymesh paper' command again, in another folder."
            )
        seconds = read_timing(Path(folder))
        experiments = {name: _experiment(data, name, one, seconds) for name, one in about["experiments"].items()}
        bias = list(_runs(data, BIAS, about["bias"], seconds))
        return Study(experiments, _read_sweeps(data / SWEEPS), about["quick"], bias)
    except FileNotFoundError as error:
        raise FileError(
            f"There is no complete study in {folder}: {error.filename} is missing. Make one with 'barymesh paper all "
            f"-o {folder}'."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"The study in {data} is damaged ({error}). Run the 'barymesh paper' command again.") from error


def _experiment(data: Path, name: str, about: dict[str, Any], seconds: Mapping[str, float]) -> Experiment:
    found = read_reference(data / name / "reference", about["reference"])
    runs, best = (
        {(run.topology, run.method): run for run in _runs(data, name, about[kind], seconds)}
        for kind in ("runs", "best")
    )
    setting = Setting(**about["setting"])
    certified = (found.support, found.optimum, found.gap, found.weights)
    return Experiment(name, about["title"], setting, *certified, runs, best)


def _runs(data: Path, name: str, entries: Iterable[dict[str, str]], seconds: Mapping[str, float]) -> Iterator[Run]:
    for one in entries:
        run = read_run(data / one["file"], one["fingerprint"], name, one["topology"], one["method"])
        yield replace(run, seconds=seconds.get(one["file"], float("nan")))


def _read_sweeps(path: Path) -> list[Sweep]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        lines.setdefault((row["parameter"], row["topology"], row["method"]), []).append(row)
    columns = {"values": "value", **{name: name for name in MEASURES}}

    def line(some: list[dict[str, str]]) -> dict[str, Any]:
        return {name: np.array([float(row[column]) for row in some]) for name, column in columns.items()}

    return [Sweep(*key, **line(some)) for key, some in lines.items()]


# ---- times


def read_timing(folder: Path) -> dict[str, float]:
    """Seconds by file, as far as they are known: they are not part of the results, so a missing file is no error."""
    try:
        return {str(file): float(seconds) for file, seconds in json.loads((folder / TIMING).read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def write_timing(folder: Path, seconds: Mapping[str, float]) -> None:
    """Write seconds by file."""
    write_text(folder / TIMING, json.dumps(dict(sorted(seconds.items())), indent=1) + "\n")


def _with(target: Path, suffix: str) -> Path:
    # not with_suffix: the names of sweeps contain dots
    return target.with_name(target.name + suffix)
