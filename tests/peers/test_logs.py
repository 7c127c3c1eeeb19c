"""Logs for programs: one JSON object per line, whatever is logged."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

from barymesh.peers.logs import JsonLines


def line(*arguments, **more):
    record = logging.makeLogRecord(
        {"name": "barymesh.transport.subscriber", "levelname": "WARNING", "created": 0.0, **more}
    )
    record.msg, record.args = arguments[0], arguments[1:]
    return JsonLines({"kit": "a"}).format(record)


def test_a_line_has_the_common_facts_and_those_of_the_event():
    assert json.loads(line("peer %s: lost", "b", peer="b", suppressed=3)) == {
        "time": "1970-01-01T00:00:00.000+00:00", "level": "warning", "part": "transport.subscriber",
        "message": "peer b: lost", "kit": "a", "peer": "b", "suppressed": 3,
    }  # fmt: skip


def test_text_from_outside_cannot_break_a_line():
    text = line("noise: %s", "a\nb\x1b[31m\u2028", peer="\x00", what=object)
    assert "\n" not in text
    assert text.isascii()
    assert json.loads(text)["message"] == "noise: a\nb\x1b[31m\u2028"


def test_a_warning_is_a_line_of_the_log():
    code = """
import warnings
from barymesh.errors import AccuracyWarning
from barymesh.peers.logs import LogForm, log_phase, write_logs
write_logs(LogForm.JSON, "INFO", {"kit": "a"})
log_phase("reading", "x.csv")
warnings.warn("the support is coarse", AccuracyWarning)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    first, second = map(json.loads, said.splitlines())
    assert (first["phase"], first["message"], first["kit"]) == ("reading", "reading: x.csv", "a")
    assert "the support is coarse" in second["message"]


def test_an_error_keeps_its_trace():
    try:
        raise ValueError("oh")
    except ValueError as error:
        text = line("failed", exc_info=(type(error), error, error.__traceback__))
    assert "ValueError: oh" in json.loads(text)["trace"]
