"""The log of a node, on standard error: lines for people, or JSON for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

# what every record has; the rest was given by whoever logged it (or has a name with _, which some libraries add)
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogForm(StrEnum):
    """How a log is written."""

    TEXT = "text"
    JSON = "json"


class JsonLines(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``part``, ``message``, the facts ``always`` given, and those
    of the event, such as the peer and the reason."""

    def __init__(self, always: dict[str, Any]) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "part": record.name.removeprefix("barymesh."),
            "message": record.getMessage(),
            **self._always,
            **{name: value for name, value in vars(record).items() if name not in _USUAL and name[0] != "_"},
        }
        if record.exc_info:
            facts["trace"] = self.formatException(record.exc_info)
        # what came from outside may be anything: in ASCII it can do no harm to a terminal
        return json.dumps(facts, default=str)


def write_logs(form: LogForm, level: str, always: dict[str, Any]) -> None:
    """Write the log of this process from ``level`` on, with the facts ``always`` in every JSON line."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines(always) if form is LogForm.JSON else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(handlers=[handler], level=level)
