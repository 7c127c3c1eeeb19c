"""The command line. ``barymesh --help`` is its manual."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

from barymesh import __version__
from barymesh.cli import barycenter, compare, dashboard, doctor, peers, run, simulate
from barymesh.cli.exit_codes import EPILOG

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


for part in (barycenter, run, simulate, compare, peers, doctor, dashboard):
    part.register(app)
# commands of other packages, such as 'barymesh paper'
for command in entry_points(group="barymesh.commands"):
    command.load()(app)

if __name__ == "__main__":
    app()
