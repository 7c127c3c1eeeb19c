"""A node's account of its releases, in a small file: each counted once, and what they cost together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from barymesh.errors import FileError
from barymesh.extras import needs
from barymesh.io.atomic import replacing
from barymesh.privacy.accounting import composed_epsilon
from barymesh.privacy.release import Release

with needs("privacy"):
    from pydantic import TypeAdapter, ValidationError

LEDGER = "privacy.json"


@dataclass(frozen=True)
class Entry(Release):
    """A release, and when it was first made."""

    time: datetime


_ENTRIES = TypeAdapter(list[Entry])


@dataclass(frozen=True)
class Spent:
    """The privacy spent so far: all ``releases`` together, if they hold the same people, are (epsilon,
    delta)-private. ``records``: those of the newest."""

    epsilon: float
    delta: float
    records: int
    releases: int


def record_release(path: Path, release: Release) -> Spent:
    """Write the release into the ledger, unless it is there already, and return what all in it have cost. It is on
    disk on return: only then may the release be used."""
    entries = read(path)
    if all(entry.digest != release.digest for entry in entries):
        entries.append(Entry(**asdict(release), time=datetime.now(UTC).replace(microsecond=0)))
        _write(path, entries)
    epsilon = composed_epsilon([entry.noise_multiplier for entry in entries], release.delta)
    return Spent(epsilon, release.delta, release.records, len(entries))


def read(path: Path) -> list[Entry]:
    """What is in the ledger; nothing if there is no such file."""
    try:
        entries = _ENTRIES.validate_json(path.read_bytes(), strict=True)
        if not all(entry.noise_multiplier > 0 for entry in entries):
            raise ValueError("a noise_multiplier is not positive")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(
            f"Cannot read the privacy ledger {path}: {error.strerror or error}. Make it readable: it records "
            "what has been released before."
        ) from error
    except ValueError as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise FileError(
            f"{path} is no privacy ledger ({why}), so what has been released before is not known. Restore it from "
            "a copy. If you move it away instead, the epsilon shown leaves out what was released before."
        ) from error
    return entries


def _write(path: Path, entries: list[Entry]) -> None:
    with replacing(path) as file:
        file.write(_ENTRIES.dump_json(entries, indent=2) + b"\n")
