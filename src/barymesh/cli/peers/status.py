"""``barymesh status``: what the nodes on this machine do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from barymesh.cli.exit_codes import NOT_CONVERGED, finish
from barymesh.cli.peers.common import Json
from barymesh.errors import FileError

NO_PORT = "has no status port"
ELSEWHERE = "not on this machine"


def status(
    what: Annotated[Path, typer.Argument(help="The public network.toml, a kit, or the folder of a node's state.")],
    as_json: Json = False,
) -> None:
    """Show what the nodes of a network do that run on this machine, or how they ended.

    The exit code is 0 if all is well, and 4 if a node has died, is stuck, is cut off or has cut another off, or has
    proof that another lies, or if none has run here.

    Example:

      barymesh status trial/network.toml
    """

    def work() -> int:
        statuses = _statuses(what)
        if as_json:
            typer.echo(json.dumps(statuses, indent=2))
        else:
            _table(statuses)
        here = any(one["here"] for one in statuses)
        return 0 if here and not any(one["trouble"] for one in statuses) else NOT_CONVERGED

    finish(work, as_json)


def _statuses(what: Path) -> list[dict[str, Any]]:
    """The status of each node: its ``state`` for people, whether it has run ``here``, whether there is ``trouble``."""
    from barymesh.peers import last_run
    from barymesh.peers.network_file import NETWORK, NetworkFile

    if what.is_dir() and not (what / NETWORK).exists():
        note = last_run.of_folder(what)
        if note is None:
            raise FileError(f"{what} is neither a kit nor the folder of a node that has run. Name a network.toml.")
        return [_status(note["name"], note["fingerprint"], note["status_port"], note)]
    path = what / NETWORK if what.is_dir() else what
    network = NetworkFile.read(path)
    notes = {node.name: last_run.find(path, node.name, network.fingerprint) for node in network.nodes}
    found = [_status(node.name, network.fingerprint, node.status_port, notes[node.name]) for node in network.nodes]
    for one in found:
        if one["state"] == ELSEWHERE:
            links = [(other["name"], other.get("links", {}).get(one["name"])) for other in found]
            one["state"] += "".join(f"; seen by {name}: {link['state']}" for name, link in links if link)
    return found


def _status(name: str, fingerprint: str, port: int | None, note: dict[str, Any] | None) -> dict[str, Any]:
    from barymesh.peers import last_run
    from barymesh.peers.states import TROUBLE, is_trouble, state_text
    from barymesh.peers.status import query

    facts = None if port is None else query(port)
    other = facts is not None and facts.get("name") != name
    if facts is not None and not other:
        text = state_text(facts)
        if facts.get("fingerprint") != fingerprint:
            text += f", runs with another network file: {facts.get('fingerprint')}"
        return {**facts, "state": text, "here": True, "trouble": is_trouble(facts)}
    known = {"name": name, "here": note is not None, "trouble": False}
    if note is not None and (port is not None or note["ending"] is not None):
        state, text = last_run.ending(note)
        return {**known, "state": text, "trouble": state in TROUBLE}
    if other:
        return {**known, "state": "another program answers at its port", "trouble": True}
    return {**known, "state": NO_PORT if port is None else ELSEWHERE}


def _table(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "node",
        "state",
        "activations",
        "error",
        "neighbours",
        "refused",
        "uptime",
        "epsilon",
        "version",
        "wire",
        box=None,
    )
    for one in found:
        if "links" not in one:
            table.add_row(one["name"], one["state"])
            continue
        links = one["links"].values()
        connected = sum(link["state"] == "connected" for link in links)
        refused = sum(sum(link["refused_messages"].values()) for link in links)
        error = "" if one["error"] is None else f"{one['error']:.2g}"
        table.add_row(
            one["name"], one["state"], str(one["activations"]), error, f"{connected} of {len(links)}", str(refused),
            f"{one['uptime']:.0f} s", _epsilon(one["privacy"]), one["program"], str(one["wire_version"]),
        )  # fmt: skip
    # a state is a sentence or two: where there is no terminal, there is room for them
    Console(width=None if sys.stdout.isatty() else 1000).print(table)


def _epsilon(spent: dict[str, Any]) -> str:
    # JSON has no infinity
    epsilon = "no privacy" if spent["epsilon"] is None else f"{spent['epsilon']:.3g}"
    return epsilon + (f" ({spent['uses']} uses)" if spent["uses"] > 1 else "")
