"""``barymesh audit``: every use of a node's data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from barymesh.cli.exit_codes import finish
from barymesh.cli.peers.common import Json, print_facts
from barymesh.errors import FileError, OptionError

# digits of a head that are enough
LEAST_HEAD = 12


def audit(
    folder: Annotated[Path, typer.Argument(help="The folder of the node's state, or its audit.jsonl.")],
    head: Annotated[str | None, typer.Option(help="A head that you noted earlier: the log must still have it.")] = None,
    as_json: Json = False,
) -> None:
    """Show and verify the audit log of a node: every use of its data.

    A line that was changed, removed or inserted is found. Note the head, the hash of the last line, somewhere else:
    with --head it is also found if the end of the log was removed, or all of it was made anew. The exit code is 3 then.

    Example:

      barymesh audit state-a
    """

    def work() -> int:
        from barymesh.peers.audit import AUDIT, read

        if head is not None and len(head) < LEAST_HEAD:
            raise OptionError(f"--head {head!r} is too short to tell one line from another: give {LEAST_HEAD} digits.")
        path = folder / AUDIT if folder.is_dir() else folder
        if not path.exists():
            raise FileError(f"There is no audit log {path}. Name the folder of a node that has run.")
        trail = read(path)
        lines = [_audit_line(entry) for entry in trail.entries]
        if trail.torn:
            lines.append("The last line is incomplete: the power failed while it was written, or somebody cut it off.")
        facts = {"entries": trail.entries, "head": trail.head, "problem": trail.problem, "torn": trail.torn}
        print_facts(facts, [*lines, f"{len(trail.entries)} entries. Head: {trail.head}"], as_json)
        if trail.problem:
            raise FileError(f"{path}: {trail.problem}. The entries above are as they were written.")
        if head is not None and not any(entry["hash"].startswith(head.lower()) for entry in trail.entries):
            raise FileError(f"{path} has no line with the hash {head}: its end was removed, or it was made anew.")
        return 0

    finish(work, as_json)


def _audit_line(entry: dict[str, Any]) -> str:
    """An entry for people."""
    hidden = ("number", "time", "event", "digest", "previous", "hash")
    facts = [f"{name} {'none' if value is None else value}" for name, value in entry.items() if name not in hidden]
    return f"{entry.get('number'):>4} {entry.get('time')} {entry.get('event'):5} {', '.join(facts)}"
