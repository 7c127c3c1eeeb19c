"""The command line. ``barymesh --help`` is its manual."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barymesh import __version__
from barymesh.cli import completion
from barymesh.cli.doctor import register as register_doctor
from barymesh.cli.exit_codes import INTERRUPTED, NOT_CONVERGED, error_as_json, finish, writable_folder
from barymesh.dashboard.command import Open, while_watched
from barymesh.dashboard.command import register as register_dashboard
from barymesh.dashboard.live import LiveFile
from barymesh.errors import AccuracyWarning, BarymeshError, DriftWarning, OptionError, WeightError
from barymesh.peers.command import register as register_peers
from barymesh.status import Status
from barymesh.support.text import HELP as SUPPORT_HELP

if TYPE_CHECKING:
    from barymesh.cli.config import ProblemConfig, RunConfig, SimulateConfig
    from barymesh.result import Result

OWN_WARNINGS = (AccuracyWarning, DriftWarning)


class Engine(StrEnum):
    """Where a network lives, as ``barymesh.barycenter`` calls it."""

    SIMULATION = "simulation"
    PROCESSES = "processes"
    RAY = "ray"


EPILOG = (
    "Exit codes: 0 converged, or ran for the duration asked for; 2 wrong usage; 3 bad input, nothing was computed; 4 "
    "stopped before reaching the tolerance, or one of several methods failed: the result was written; "
    "130 interrupted, the best result so far was written."
)
app = typer.Typer(
    help="Wasserstein barycenters: the one measure closest to many.",
    no_args_is_help=True,
    epilog=EPILOG,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"barymesh {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Wasserstein barycenters: the one measure closest to many."""


Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on standard output, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


@app.command(epilog=EPILOG)
def barycenter(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Files or folders, one measure a file: .csv, .parquet, .npy, .npz, .png and other images, IDX."
        ),
    ],
    reg: Annotated[float, typer.Option(help="Entropic regularisation, in units of the cost. Smaller is sharper.")],
    relative: Annotated[
        bool, typer.Option("--relative", help="reg is a multiple of the median cost; 0.01 is a good start.")
    ] = False,
    support: Annotated[str | None, typer.Option(help=f"Where the barycenter lives: {SUPPORT_HELP}.")] = None,
    weights: Annotated[
        str | None, typer.Option(help="Importance of each measure, as numbers joined by commas. Default: equal.")
    ] = None,
    cost: Annotated[
        str,
        typer.Option(
            help="sqeuclidean, euclidean, or another metric of scipy.spatial.distance.", autocompletion=completion.costs
        ),
    ] = "sqeuclidean",
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="What bare arrays in .npy and .npz are: samples, image or histogram.",
            autocompletion=completion.kinds,
        ),
    ] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Dark pixels of images carry the mass.")] = False,
    columns: Annotated[
        str | None, typer.Option(help="Columns of tables that are coordinates, joined by commas.")
    ] = None,
    weight_column: Annotated[str | None, typer.Option(help="Column of tables with the mass of each sample.")] = None,
    tol: Annotated[float, typer.Option(help="Stop once the measures agree to this (mean L1 distance).")] = 1e-6,
    max_iter: Annotated[int, typer.Option(help="Stop after this many iterations in any case.")] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    precision: Annotated[
        str, typer.Option(help="float64 or float32.", autocompletion=completion.precisions)
    ] = "float64",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("out"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the result already in the output folder.")
    ] = False,
    watched: Open = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute the barycenter of measures in files.

    Writes result.npz (everything), weights.csv, barycenter.png and summary.json to the output folder. Ctrl-C keeps the
    best result so far; --resume goes on from it.

    Examples:

      barymesh barycenter scans/ --reg 0.004 -o mean-scan

      barymesh barycenter a.csv b.csv c.csv --reg 0.01 --relative --support 200:-5:5

      barymesh barycenter digits-idx3-ubyte.gz --reg 0.004 --json
    """
    from barymesh.cli.config import RunConfig
    from barymesh.io.tables import columns_from_text

    def run() -> int:
        config = RunConfig.model_construct(
            data=[str(path) for path in data], reg=reg, relative_reg=relative, kind=kind, invert=invert,
            columns=columns_from_text(columns), weight_column=weight_column,
            support=support, weights=_numbers(weights),
            cost=cost, samples=1000, max_iter=max_iter, tol=tol, seed=seed, precision=precision, output=str(output),
            resume=resume,
        )  # fmt: skip
        return while_watched(watched, output, lambda: _run(config, Path(), as_json, quiet))

    finish(run, as_json)


@app.command(epilog=EPILOG)
def run(
    config: Annotated[Path, typer.Argument(help="A TOML file; paths in it are relative to its folder.")],
    watched: Open = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute a barycenter described in a TOML file.

    Only data and reg must be there; the other keys are the options of 'barymesh barycenter' (relative_reg, support,
    weights, cost, kind, invert, columns, weight_column, tol, max_iter, seed, samples, precision, output, resume).

    Example file:

      data = ["hospital-a.csv", "hospital-b.csv"]

      reg = 0.01

      relative_reg = true

      support = "200:-5:5"

      output = "out"
    """
    from barymesh.cli.config import RunConfig, read_config

    def work() -> int:
        known = read_config(config, RunConfig)
        folder = config.parent / known.output
        return while_watched(watched, folder, lambda: _run(known, config.parent, as_json, quiet))

    finish(work, as_json)


@app.command(epilog=EPILOG)
def simulate(
    config: Annotated[Path, typer.Argument(help="A TOML file; paths in it are relative to its folder.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run saved in the output folder, to the file's duration.")
    ] = False,
    engine: Annotated[
        Engine, typer.Option(help="Virtual time, processes on this machine, or a Ray cluster.")
    ] = Engine.SIMULATION,
    workers: Annotated[
        int | None, typer.Option(help="Processes and ray: how many share the nodes. Default: one for each core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray: the cluster, as host:port. Default: one of its own on this machine.")
    ] = None,
    watched: Open = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a network whose nodes compute the barycenter together, in virtual time.

    The measures stay with their nodes, which talk to their neighbours only. Writes what 'barymesh barycenter' writes,
    and history.csv, history.png, run.npz (to go on from with --resume) and, if asked for, an animation. Ctrl-C keeps
    what there is.

    Needed are reg, network, and data or gaussians. The other keys of 'barymesh run' work here too, except max_iter
    and resume. Further keys: method, duration, delays, schedule, faults, events, step, steps, batch, tol, frugal,
    record_every, reference, snapshots, animation (true, "gif", "mp4" or "html").

    With --engine processes or ray nothing is simulated: real workers, on this machine or a Ray cluster, run the same
    network. The file must then have no delays, schedule, faults, events, frugal, snapshots or animation.

    Example file, 30 normal distributions drawn at random:

      gaussians = {count = 30, mean = [-4, 4], std = [0.1, 0.6], seed = 0}

      reg = 0.1

      support = "100:-5:5"

      network = "erdos_renyi:p=0.2"

      method = "sinkhorn"

      duration = 100

      delays = "uniform:low=0.1,high=0.5"

      faults = ["loss:probability=0.1", {kind = "crash", node = 3, start = 10, stop = 20}]

      reference = true

      animation = "gif"

    Examples:

      barymesh simulate network.toml

      barymesh simulate network.toml --resume --json

      barymesh simulate network.toml --engine processes --workers 4
    """
    from barymesh.cli.config import SimulateConfig, read_config

    asked = {"workers": workers, "address": address, "resume": resume or None}
    given = {name: value for name, value in asked.items() if value is not None}

    def work() -> int:
        known = read_config(config, SimulateConfig)
        folder = config.parent / known.output
        return while_watched(watched, folder, lambda: _simulate(known, config, engine, given, as_json, quiet))

    finish(work, as_json)


@app.command(epilog=EPILOG)
def compare(
    config: Annotated[Path, typer.Argument(help="A TOML file as for 'barymesh simulate'.")],
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods joined by commas. Default: the key methods of the file.", autocompletion=completion.methods
        ),
    ] = None,
    watched: Open = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate several methods on the same problem and network, and draw them together.

    Writes comparison.png, comparison.csv and summary.json to the output folder, and inside it a folder for each method
    with what 'barymesh simulate' writes, except run.npz. The true barycenter to compare with is computed once; the key
    reference = false leaves it out. A method that fails, and Ctrl-C, keep the results of the others.

    Examples:

      barymesh compare network.toml --methods dcwb,a2dwb,a2dwb_naive

      barymesh compare network.toml --json
    """
    from barymesh.cli.config import SimulateConfig, known_methods, read_config

    def run() -> int:
        known = read_config(config, SimulateConfig)
        named = known.methods if methods is None else known_methods([name.strip() for name in methods.split(",")])
        if named is None:
            raise OptionError("Which methods? Give --methods dcwb,a2dwb, or the key methods in the file.")
        folder = config.parent / known.output
        return while_watched(watched, folder, lambda: _compare(known, config.parent, named, as_json, quiet))

    finish(run, as_json)


def _run(config: RunConfig, base: Path, as_json: bool, quiet: bool) -> int:
    """Read, compute, write. Returns the exit code."""
    from barymesh.api import barycenter as compute
    from barymesh.io.output import RESULT, write_outputs
    from barymesh.result import Result
    from barymesh.viz.tables import print_result

    folder = writable_folder(base / config.output)
    start = Result.load(folder / RESULT) if config.resume else None
    support, measures = _inputs(config, base)
    with LiveFile(folder, "sinkhorn", config.max_iter) as live, _plain_warnings() as said:
        result = compute(
            measures,
            support,
            **config.problem_options(),
            max_iter=config.max_iter,
            tol=config.tol,
            start=start,
            callback=live,
            progress=not (quiet or as_json),
        )
        files = write_outputs(result, folder)
    if as_json:
        typer.echo(json.dumps({**result.summary(), "warnings": said, "files": files}, indent=2))
    else:
        _warn(said)
        print_result(result, files)
    return _code(result)


def _simulate(
    config: SimulateConfig, path: Path, engine: Engine, given: dict[str, Any], as_json: bool, quiet: bool
) -> int:
    """Read, simulate or run with the options ``given``, write. Returns the exit code."""
    from barymesh.api import barycenter as compute
    from barymesh.io.output import CHECKPOINT, write_outputs
    from barymesh.viz.tables import print_result

    simulated = engine is Engine.SIMULATION
    folder = writable_folder(path.parent / config.output)
    _check_animation(config)
    running = config.working_options()
    if simulated:
        running = {**config.running_options(path.parent), "checkpoint": folder / CHECKPOINT}
    support, measures = _inputs(config, path.parent)
    with LiveFile(folder, config.method, config.duration) as live:
        with _plain_warnings() as said:
            result = compute(
                measures,
                support,
                **config.problem_options(),
                **{**running, **given},
                engine=engine.value,
                network=config.network_from(path.parent),
                method=config.method,
                reference=bool(config.reference),
                callback=live,
                progress=not (quiet or as_json),
            )
        files = write_outputs(result, folder, animation=config.animation)
    if simulated:
        files["run"] = str(folder / CHECKPOINT)
    if as_json:
        typer.echo(json.dumps({**result.summary(), "warnings": said, "files": files}, indent=2))
    else:
        _warn(said)
        print_result(result, files)
        if result.status is Status.INTERRUPTED and simulated:
            typer.echo(f"To go on: barymesh simulate {path} --resume", err=True)
    return _code(result)


def _compare(config: SimulateConfig, base: Path, methods: list[str], as_json: bool, quiet: bool) -> int:
    """Read, simulate method by method, write. Returns the exit code."""
    from barymesh.io.output import write_comparison, write_outputs
    from barymesh.network import as_network
    from barymesh.problem import Problem
    from barymesh.simulate import Options, exact_reference
    from barymesh.simulate import simulate as run_method
    from barymesh.viz.tables import print_comparison

    folder = writable_folder(base / config.output)
    _check_animation(config)
    support, measures = _inputs(config, base)
    problem = Problem.create(measures, support, **config.problem_options())
    network = as_network(config.network_from(base), len(problem.measures), problem.seed)
    options = config.running_options(base)
    results: dict[str, Result] = {}
    failures: dict[str, BarymeshError] = {}
    warned: list[str] = []
    interrupted = False
    with ExitStack() as shown:
        lives = {name: shown.enter_context(LiveFile(folder / name, name, config.duration)) for name in methods}
        for live in lives.values():
            live.announce("waiting")
        reference = None if config.reference is False else exact_reference(problem)
        for method, live in lives.items():
            live.announce("starting")
            chosen = Options(method=method, reference=reference, **{**options, "step": config.step_for(method)})
            try:
                with _plain_warnings() as said:
                    result = run_method(problem, network, chosen, callback=live, progress=not (quiet or as_json))
                warned += said
                write_outputs(result, folder / method, animation=config.animation)
                results[method] = result
                interrupted = result.status is Status.INTERRUPTED
            except BarymeshError as error:
                failures[method] = error
            except KeyboardInterrupt:
                interrupted = True
            live.close()
            if interrupted:
                break
    if not results:
        raise next(iter(failures.values()), KeyboardInterrupt())
    summary = {
        "methods": {method: result.summary() for method, result in results.items()},
        "failures": {method: error_as_json(failure) for method, failure in failures.items()},
        "warnings": warned,
    }
    files = write_comparison(results, summary, folder)
    if as_json:
        typer.echo(json.dumps({**summary, "files": files}, indent=2))
    else:
        _warn(warned)
        for method, failure in failures.items():
            typer.echo(f"Error: {method}: {failure}", err=True)
        print_comparison(results, files)
    if interrupted:
        return INTERRUPTED
    return NOT_CONVERGED if failures else 0


def _inputs(config: ProblemConfig, base: Path) -> tuple[Any, Any]:
    """Support and measures."""
    from barymesh.cli.config import SimulateConfig
    from barymesh.io.files import read_measures
    from barymesh.support.text import parse_support

    support = None if config.support is None else parse_support(config.support, base)
    if isinstance(config, SimulateConfig) and config.gaussians is not None:
        return support, config.gaussians.draw()
    reading = config.model_dump(include={"kind", "invert", "columns", "weight_column"})
    return support, read_measures([base / path for path in config.data or ()], **reading)


def _check_animation(config: SimulateConfig) -> None:
    if config.animation is not None:
        from barymesh.viz.animation import check_kind

        check_kind(Path(f"animation.{config.animation}"))


def _code(result: Result) -> int:
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    return 0 if result.success else NOT_CONVERGED


@contextmanager
def _plain_warnings() -> Iterator[list[str]]:
    """A list that holds, after the block, the warnings barymesh gave on purpose, as sentences. Others are shown as
    ever."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        for kind in OWN_WARNINGS:
            warnings.simplefilter("always", kind)
        yield said
    for one in caught:
        if issubclass(one.category, OWN_WARNINGS):
            said.append(str(one.message))
        else:
            warnings.showwarning(one.message, one.category, one.filename, one.lineno)


def _warn(said: list[str]) -> None:
    for sentence in said:
        typer.echo(f"Warning: {sentence}", err=True)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise WeightError(f"--weights {text!r} is not a list of numbers joined by commas, such as 1,2,1.") from error


register_peers(app)
register_doctor(app)
register_dashboard(app)
for command in entry_points(group="barymesh.commands"):
    command.load()(app)

if __name__ == "__main__":
    app()
