"""The audit log of a node: a line for every use of its data, chained by hashes.

Every line is a JSON object with the hash of the line before it and its own hash, which covers all the rest. Whoever
changes, removes or inserts a line breaks the chain from there on. Somebody who may write the file can make a whole new
chain, or cut off its end: so write down the hash of the last line, the *head*, where they cannot change it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from barymesh.errors import FileError

AUDIT = "audit.jsonl"
# the head of a log without lines
EMPTY = "0" * 64


@dataclass(frozen=True)
class AuditTrail:
    """The ``entries`` of a log up to the first that is not as it was written, and what is wrong there: a sentence,
    empty if all is well. ``complete`` is the number of bytes of these entries; ``torn`` whether an incomplete line
    follows, as a power cut leaves one: no use of the data followed it."""

    entries: list[dict[str, Any]]
    problem: str
    complete: int
    torn: bool = False

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return str(self.entries[-1]["hash"]) if self.entries else EMPTY


def read(path: Path) -> AuditTrail:
    """The log in the file, verified; an empty one if there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise FileError(
            f"Cannot read the audit log {path}: {error.strerror or error}. Make it readable to this user."
        ) from error
    entries: list[dict[str, Any]] = []
    head, complete, problem = EMPTY, 0, ""
    # not splitlines: a line ends with this byte and with no other
    *lines, rest = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        found = _entry(line)
        if found is None or found.get("hash") != _hash(found):
            problem = f"line {number} was changed after it was written"
        elif found.get("previous") != head:
            problem = f"line {number} does not follow the line before it: lines were removed, inserted or moved"
        if problem or found is None:
            break
        entries.append(found)
        head, complete = found["hash"], complete + len(line) + 1
    return AuditTrail(entries, problem, complete, bool(rest))


def record(path: Path, event: str, facts: Mapping[str, Any]) -> str:
    """Add a line for this event, on disk on return: only then may the data be used. Returns the new head."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            trail = read(path)
            if trail.problem:
                raise FileError(
                    f"The audit log {path} is broken: {trail.problem}. Find out who changed it. To go on, move it to a "
                    "safe place: a new one is begun."
                )
            entry = {
                "number": len(trail.entries) + 1, "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "event": event, **facts, "previous": trail.head,
            }  # fmt: skip
            entry["hash"] = _hash(entry)
            os.ftruncate(file, trail.complete)
            os.pwrite(file, _line(entry) + b"\n", trail.complete)
            os.fsync(file)
        finally:
            os.close(file)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"The audit log {path} cannot be written: {error.strerror or error}. Make room, or name another folder; "
            "without it the data are not used."
        ) from error
    return str(entry["hash"])


def _entry(line: bytes) -> dict[str, Any] | None:
    """What the line says; None if no entry is written like this, to the last byte: of a name that stands there twice,
    programs take the last value, and people may read the first."""
    try:
        found = json.loads(line)
        return found if isinstance(found, dict) and _line(found) == line else None
    except (ValueError, RecursionError):
        return None


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, allow_nan=False).encode()


def _hash(entry: Mapping[str, Any]) -> str:
    """SHA-256 of everything else in the entry."""
    rest = {name: value for name, value in entry.items() if name != "hash"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
