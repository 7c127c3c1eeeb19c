"""``barymesh keygen``, ``network``, ``node``, ``readmit``, ``status`` and ``audit``: a network across organisations."""

from __future__ import annotations

from collections.abc import Callable

import typer

from barymesh.cli.peers.audit import audit
from barymesh.cli.peers.network import NETWORK_HELP, accept, add, create, declare, keygen, remove, rotate_key
from barymesh.cli.peers.node import node, readmit
from barymesh.cli.peers.status import status


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    epilog = app.info.epilog
    network = typer.Typer(help=NETWORK_HELP, no_args_is_help=True, epilog=epilog)
    parts: tuple[Callable[..., None], ...] = (create, add, remove, rotate_key, declare, accept)
    commands: tuple[Callable[..., None], ...] = (keygen, node, status, audit, readmit)
    for part in parts:
        network.command(epilog=epilog)(part)
    app.add_typer(network, name="network")
    for command in commands:
        app.command(epilog=epilog)(command)
