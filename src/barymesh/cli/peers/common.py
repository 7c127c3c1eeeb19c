"""What the commands of a network across organisations share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

FOLDER = "run"

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else.")]
KitFolder = Annotated[Path, typer.Argument(help="The folder with the node's node.toml, network.toml and secret.key.")]


def print_facts(facts: Any, lines: list[str], as_json: bool) -> None:
    """The facts as JSON, or the lines for people."""
    if as_json:
        from barymesh.peers.status import jsonable

        typer.echo(json.dumps(jsonable(facts), indent=2))
    else:
        typer.echo("\n".join(lines))
