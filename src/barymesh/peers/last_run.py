"""A note about the last run of a node, for those who ask when it no longer answers: did it end well?

It is in the folder of its state, and in its kit if that can be written: there ``barymesh status`` finds it, which knows
the network file only.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from barymesh.errors import FileError
from barymesh.io.atomic import write_text
from barymesh.peers.kit import Kit
from barymesh.peers.members import KITS
from barymesh.peers.states import clock
from barymesh.record import NodeState

_log = logging.getLogger(__name__)

LAST_RUN = "last-run.json"


class LastRun:
    """The note of the node of a kit whose state is in ``folder``."""

    def __init__(self, kit: Kit, folder: Path) -> None:
        self.folders = [folder, kit.folder]
        self.facts: dict[str, Any] = {
            "name": kit.name, "fingerprint": kit.network.fingerprint, "status_port": kit.entry.status_port,
            "folder": str(folder.absolute()), "ending": None,
        }  # fmt: skip

    def begun(self) -> None:
        """The node begins to run."""
        self._write(began=time.time())

    def ended(self, ending: str, text: str, converged: bool) -> None:
        """The node ends: ``ending`` is a word, ``text`` says it in words."""
        self._write(ending=ending, text=text, converged=converged, ended=time.time())

    def _write(self, **more: Any) -> None:
        self.facts |= more
        written = []
        for folder in self.folders:
            try:
                write_text(folder / LAST_RUN, json.dumps(self.facts, indent=2) + "\n")
                written.append(folder)
            except FileError:
                # a kit may be read-only
                continue
        if not written:
            _log.error("no note about this run could be written to %s", self.folders[0])


def find(network: Path, name: str, fingerprint: str) -> dict[str, Any] | None:
    """The note about the node with this name in the kits beside the network file, or in the kit that holds it."""
    folders = (network.parent, network.parent / KITS / name)
    return next((note for note in _notes(folders) if (note["name"], note["fingerprint"]) == (name, fingerprint)), None)


def of_folder(folder: Path) -> dict[str, Any] | None:
    """The note in the folder."""
    return next(iter(_notes([folder])), None)


def ending(note: dict[str, Any]) -> tuple[NodeState, str]:
    """The state of a node that has left this note and does not answer, and the same in words."""
    if note["ending"] is None:
        return (
            NodeState.DEAD,
            f"dead or stopped: it began at {clock(note['began'])}, does not answer, and has left no note of its end",
        )
    when = clock(note["ended"])
    if note["ending"] == "failed":
        return NodeState.DEAD, f"failed at {when}: {note['text']}"
    if note["ending"] == "out_of_time" and not note["converged"]:
        return NodeState.ENDED, f"ended at {when}, before the network converged: {note['text']}"
    return NodeState.ENDED, f"ended well at {when}: {note['text']}"


def _notes(folders: Iterable[Path]) -> Iterable[dict[str, Any]]:
    for folder in folders:
        try:
            note = json.loads((folder / LAST_RUN).read_text())
        except (OSError, ValueError):
            continue
        if isinstance(note, dict) and {"name", "fingerprint", "ending", "began"} <= set(note):
            yield note
