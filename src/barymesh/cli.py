"""The command line. ``barymesh --help`` is its manual."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from barymesh import __version__
from barymesh.errors import BarymeshError, FileError, WeightError
from barymesh.status import Status
from barymesh.support_text import HELP as SUPPORT_HELP

if TYPE_CHECKING:
    from barymesh.config import RunConfig
    from barymesh.result import Result

BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 3, 4, 130

EPILOG = (
    "Exit codes: 0 converged; 2 wrong usage; 3 bad input, nothing was computed; 4 stopped before reaching the "
    "tolerance, the result was written; "
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
        str, typer.Option(help="sqeuclidean, euclidean, or another metric of scipy.spatial.distance.")
    ] = "sqeuclidean",
    kind: Annotated[
        str | None, typer.Option("--as", help="What bare arrays in .npy and .npz are: samples, image or histogram.")
    ] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Dark pixels of images carry the mass.")] = False,
    tol: Annotated[float, typer.Option(help="Stop once the measures agree to this (mean L1 distance).")] = 1e-6,
    max_iter: Annotated[int, typer.Option(help="Stop after this many iterations in any case.")] = 5000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    precision: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("out"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the result already in the output folder.")
    ] = False,
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
    from barymesh.config import RunConfig

    def run() -> int:
        config = RunConfig.model_construct(
            data=[str(path) for path in data], reg=reg, relative_reg=relative, kind=kind, invert=invert,
            support=support, weights=_numbers(weights),
            cost=cost, samples=1000, max_iter=max_iter, tol=tol, seed=seed, precision=precision, output=str(output),
            resume=resume,
        )  # fmt: skip
        return _run(config, Path(), as_json, quiet)

    _finish(run, as_json)


@app.command(epilog=EPILOG)
def run(
    config: Annotated[Path, typer.Argument(help="A TOML file; paths in it are relative to its folder.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute a barycenter described in a TOML file.

    Only data and reg must be there; the other keys are the options of 'barymesh barycenter' (relative_reg, support,
    weights, cost, kind, invert, tol, max_iter, seed, samples, precision, output, resume).

    Example file:

      data = ["hospital-a.csv", "hospital-b.csv"]

      reg = 0.01

      relative_reg = true

      support = "200:-5:5"

      output = "out"
    """
    from barymesh.config import read_config

    _finish(lambda: _run(read_config(config), config.parent, as_json, quiet), as_json)


def _run(config: RunConfig, base: Path, as_json: bool, quiet: bool) -> int:
    """Read, compute, write. Returns the exit code."""
    from barymesh.api import barycenter as compute
    from barymesh.files import read_measures
    from barymesh.output import RESULT, write_outputs
    from barymesh.result import Result
    from barymesh.support_text import parse_support

    folder = base / config.output
    if folder.exists() and not folder.is_dir():
        raise FileError(f"The output {folder} is a file, not a folder. Choose another with -o.")
    above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise FileError(f"The output {folder} cannot be written: {above} is no folder, or forbids it.")
    start = Result.load(folder / RESULT) if config.resume else None
    chosen = None if config.support is None else parse_support(config.support, base)
    measures = read_measures([base / path for path in config.data], kind=config.kind, invert=config.invert)
    result = compute(
        measures,
        chosen,
        reg=config.reg,
        relative_reg=config.relative_reg,
        weights=config.weights,
        cost=config.cost,
        max_iter=config.max_iter,
        tol=config.tol,
        seed=config.seed,
        samples=config.samples,
        precision=config.precision,
        start=start,
        progress=not (quiet or as_json),
    )
    files = write_outputs(result, folder)
    if as_json:
        typer.echo(json.dumps({**result.summary(), "files": files}, indent=2))
    else:
        _tell(result, files)
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    return 0 if result.success else NOT_CONVERGED


def _tell(result: Result, files: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    rows = {
        "measures": str(result.node_weights.shape[0]),
        "support": repr(result.support),
        "reg": f"{result.reg:.6g}",
        "objective": f"{result.value:.8g}",
        "certified gap": f"{result.gap:.1e}  (the objective is within this of the best possible)",
        "iterations": f"{result.iterations} in {result.seconds:.2f} s",
        "picture": files["picture"],
        "weights": files["weights"],
        "everything": files["result"],
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console = Console(highlight=False, soft_wrap=True)
    console.print(result.message)
    console.print(table)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise WeightError(f"--weights {text!r} is not a list of numbers joined by commas.") from error


def _finish(work: Callable[[], int], as_json: bool) -> NoReturn:
    """Run the work; errors of barymesh become one message and an exit code, not a traceback."""
    try:
        code = work()
    except BarymeshError as error:
        if as_json:
            typer.echo(json.dumps({"error": type(error).__name__, "message": str(error)}))
        typer.echo(f"Error: {error}", err=True)
        code = BAD_INPUT
    except KeyboardInterrupt:
        typer.echo("Interrupted before there was a result.", err=True)
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    app()
