"""A node's account of what it has revealed, in a small file: releases, each counted once, what they cost together, and
the data that were used without privacy."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from barymesh.errors import FileError, PrivacyError
from barymesh.extras import needs
from barymesh.io.atomic import replacing
from barymesh.privacy.accounting import composed_epsilon
from barymesh.privacy.release import Release

with needs("privacy"):
    from pydantic import TypeAdapter, ValidationError

LEDGER = "privacy.json"
# of the composed epsilon
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Entry:
    """A release, and when it was first made. Data that were used without privacy have no ``epsilon``, ``delta`` and
    ``noise_multiplier``."""

    digest: str
    epsilon: float | None
    delta: float | None
    records: int
    noise_multiplier: float | None
    time: datetime


_ENTRIES = TypeAdapter(list[Entry])


@dataclass(frozen=True)
class Spent:
    """The privacy spent so far: all ``uses`` of the data together, if they hold the same people, are (epsilon,
    delta)-private; ``epsilon`` is infinite, and ``delta`` None, once data were used without privacy. ``records``: those
    of the newest."""

    epsilon: float
    delta: float | None
    records: int
    uses: int


@dataclass(frozen=True)
class OpenUse:
    """Data used without privacy: ``digest`` is the same for the same data, and ``records`` is how many there are."""

    digest: str
    records: int


def record_use(path: Path, use: Release | OpenUse, budget: float | None = None) -> Spent:
    """Write the use of the data into the ledger, unless it is there already, and return what all in it have cost. It is
    on disk on return: only then may the data be used. PrivacyError, and nothing is written, if the cost is above the
    ``budget``."""
    entries = read(path)
    spent = cost(entries, use)
    check_budget(path, entries, spent, budget)
    if spent.uses > len(entries):
        _write(path, [*entries, _entry(use)])
    return spent


def check_budget(path: Path, entries: list[Entry], spent: Spent, budget: float | None) -> None:
    """PrivacyError if what would be spent is more than the budget; the ledger at the path has the entries."""
    if budget is None or spent.epsilon <= budget * (1 + _ROUNDING):
        return
    what = "Data used without privacy cost" if spent.epsilon == math.inf else "All releases together would cost"
    raise PrivacyError(
        f"{what} epsilon {spent.epsilon:.4g}, and the budget is {budget:g}: {path} has {len(entries)} uses, and this "
        f"is {'a new one' if spent.uses > len(entries) else 'one of them'}. Give a smaller --epsilon, take data of "
        "other people in a new folder, or have the budget raised by those whose data they are."
    )


def cost(entries: list[Entry], use: Release | OpenUse) -> Spent:
    """What the entries cost together with this use, if it is not one of them: at the smallest delta of all. At a larger
    one all of them would cost less, and a budget that is spent would not be."""
    if all(entry.digest != use.digest for entry in entries):
        entries = [*entries, _entry(use)]
    multipliers = [entry.noise_multiplier for entry in entries if entry.noise_multiplier is not None]
    if len(multipliers) < len(entries):
        return Spent(math.inf, None, use.records, len(entries))
    delta = min(entry.delta for entry in entries if entry.delta is not None)
    return Spent(composed_epsilon(multipliers, delta), delta, use.records, len(entries))


def _entry(use: Release | OpenUse) -> Entry:
    guarantee = {"epsilon": None, "delta": None, "noise_multiplier": None}
    return Entry(**{**guarantee, **asdict(use)}, time=datetime.now(UTC).replace(microsecond=0))


def read(path: Path) -> list[Entry]:
    """What is in the ledger; nothing if there is no such file."""
    try:
        entries = _ENTRIES.validate_json(path.read_bytes(), strict=True)
        if not all(entry.noise_multiplier is None or entry.noise_multiplier > 0 for entry in entries):
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
