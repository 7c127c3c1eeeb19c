"""The log of a node, on standard error: text for people, or JSON for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

_log = logging.getLogger(__name__)

# the attributes that every record has; the others are facts of the event (or begin with _, as some libraries add)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogForm(StrEnum):
    """The form of a log."""

    TEXT = "text"
    JSON = "json"


class JsonLines(logging.Formatter):
    """One JSON object per line: ``time`` (UTC), ``level``, ``part``, ``message``, the ``common`` facts, and the
    facts of the event, such as the peer and the reason."""

    def __init__(self, common: dict[str, Any]) -> None:
        super().__init__()
        self._common = common

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "part": record.name.removeprefix("barymesh."),
            "message": record.getMessage(),
            **self._common,
            **{name: value for name, value in vars(record).items() if name not in _STANDARD and name[0] != "_"},
        }
        if record.exc_info:
            facts["trace"] = self.formatException(record.exc_info)
        # text from outside may be anything: in ASCII it cannot harm a terminal
        return json.dumps(facts, default=str)


def write_logs(form: LogForm, level: str, common: dict[str, Any]) -> None:
    """Write the log of this process from ``level`` on, with the ``common`` facts in every JSON line."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines(common) if form is LogForm.JSON else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(handlers=[handler], level=level)
    # warnings too are lines of the log
    logging.captureWarnings(True)


def log_phase(phase: str, text: str, **facts: Any) -> None:
    """Log that the node has entered a phase of its life, such as ``reading`` or ``waiting for c``."""
    _log.info("%s: %s", phase, text, extra={"phase": phase, **facts})
