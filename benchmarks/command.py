"""``python -m benchmarks``: the speed of barymesh on this machine, in ratios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from barymesh.cli.exit_codes import INTERRUPTED, NOT_CONVERGED, finish, writable_folder
from benchmarks import suite

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Small cases and rough figures: two minutes in all.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help=f"Measure this part only (may be repeated): {', '.join(suite.NAMES)}. The results of other parts in "
            "the folder are kept.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("barymesh-bench"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON on standard output, and nothing else there.")
    ] = False,
) -> None:
    """Measure the speed of barymesh on this machine, against floors and against other libraries.

    Writes latest.md (a page to read), latest.json and figures to the output folder, after every part, so that Ctrl-C
    keeps the parts that are finished. POT and OTT-JAX take part if they are installed (pip install -e
    '.[bench]'). Close other programs while it runs; only network, methods, growth and unregularised
    count virtual time, and private counts none.

    Examples:

      python -m benchmarks --quick

      python -m benchmarks --only exact --only kernels -o results
    """
    finish(lambda: _bench(quick, only or [], output, as_json), as_json)


def _bench(quick: bool, only: list[str], output: Path, as_json: bool) -> int:
    """Measure, and print where the results are. Returns the exit code."""
    suite.check_names(only)
    folder = writable_folder(output)
    chosen = {name: run for name, run in suite.benchmarks().items() if name in (only or suite.NAMES)}
    outcome = suite.run_suite(chosen, quick, folder, lambda line: typer.echo(line, err=True))
    if as_json:
        typer.echo(json.dumps({"parts": outcome.parts}))
    else:
        typer.echo(f"Results: {folder / suite.PAGE}")
    if outcome.interrupted:
        return INTERRUPTED
    return NOT_CONVERGED if outcome.failed else 0
