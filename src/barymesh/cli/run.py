"""``barymesh run``: a barycenter described in a file."""

from __future__ import annotations

import typer

from barymesh.cli.barycenter import compute
from barymesh.cli.config import RUN
from barymesh.cli.config_file import errors_with_lines, known_keys, read_config
from barymesh.cli.dashboard import Open, with_dashboard
from barymesh.cli.exit_codes import finish
from barymesh.cli.parameters import ConfigPath, Json, Quiet

HELP = f"""Compute a barycenter described in a TOML file.

Only data and reg must be there; the other keys are the options of 'barymesh barycenter':
{", ".join(name for name in known_keys(RUN) if name not in ("data", "reg"))}.

Example file:

  data = ["hospital-a.csv", "hospital-b.csv"]

  reg = 0.01

  relative_reg = true

  support = "200:-5:5"

  output = "out"
"""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(help=HELP, epilog=app.info.epilog)(run)


def run(config: ConfigPath, watched: Open = False, as_json: Json = False, quiet: Quiet = False) -> None:
    """Compute a barycenter described in a TOML file."""

    def work() -> int:
        wanted = read_config(config, RUN)
        with errors_with_lines(config):
            return with_dashboard(watched, wanted.folder, lambda: compute(wanted, as_json, quiet))

    finish(work, as_json)
