"""``barymesh barycenter``: the barycenter of measures in files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from barymesh.cli.config import Config
from barymesh.cli.dashboard import Open, with_dashboard
from barymesh.cli.exit_codes import exit_code, finish, writable_folder
from barymesh.cli.parameters import FLAGS, Json, Quiet, config_from_flags, takes
from barymesh.cli.reporting import collecting_warnings, print_json, print_warnings
from barymesh.dashboard.live import LiveFile
from barymesh.options import Options


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=app.info.epilog)(barycenter)


@takes(FLAGS.values())
def barycenter(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Files or folders, one measure a file (or many in a table, see --by): .csv, .parquet, .npy, .npz, "
            ".png and other images, IDX."
        ),
    ],
    watched: Open = False,
    as_json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Compute the barycenter of measures in files.

    Writes result.npz (everything), weights.csv, barycenter.png, summary.json and recording.npz (for 'barymesh
    dashboard') to the output folder. Ctrl-C keeps the best result so far; --resume continues from it.

    Examples:

      barymesh barycenter scans/ --reg 0.004 -o mean-scan

      barymesh barycenter a.csv b.csv c.csv --reg 0.01 --relative --support 200:-5:5

      barymesh barycenter data.csv --by site --columns age,bmi --weights size --reg 0.01 --relative

      barymesh barycenter digits-idx3-ubyte.gz --reg 0.004 --json
    """

    def work() -> int:
        config = config_from_flags(data, given)
        return with_dashboard(watched, config.folder, lambda: compute(config, as_json, quiet))

    finish(work, as_json)


def compute(config: Config, as_json: bool, quiet: bool) -> int:
    """Read the measures, compute their barycenter, write the results. Returns the exit code."""
    from barymesh.api import barycenter
    from barymesh.io.output import RESULT, write_outputs
    from barymesh.result import Result
    from barymesh.viz.tables import print_result

    folder = writable_folder(config.folder)
    start = Result.load(folder / RESULT) if config.command.resume else None
    measures = config.command.measures()
    until = config.options.get("max_iter", Options.fields()["max_iter"].default)
    with LiveFile(folder, "sinkhorn", until) as live, collecting_warnings() as messages:
        result = barycenter(measures, **config.options, start=start, callback=live, progress=not (quiet or as_json))
        files = write_outputs(result, folder)
    files["recording"] = str(live.recording)
    if as_json:
        print_json(result.summary(), files, messages)
    else:
        print_warnings(messages)
        print_result(result, files)
    return exit_code(result)
