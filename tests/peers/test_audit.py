"""The audit log: whatever is done to it is found, and nothing uses the data without it."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import barymesh as bm
from barymesh.errors import FileError
from barymesh.peers import audit
from barymesh.peers.audit import AUDIT, EMPTY, read, record
from barymesh.peers.node import PrivacyLevel, open_peer
from tests.cli.calling import call
from tests.peers.test_node import MEASURE, kit, worked

__all__ = ["kit"]


def written(path, count=5):
    heads = [record(path, "begin", {"node": "a", "epsilon": number / 7}) for number in range(count)]
    return heads, path.read_bytes().splitlines(keepends=True)


def test_a_line_for_every_event_each_with_the_hash_of_the_last(tmp_path):
    heads, lines = written(tmp_path / "new" / AUDIT)
    entries = [json.loads(line) for line in lines]
    assert [entry["number"] for entry in entries] == [1, 2, 3, 4, 5]
    assert [entry["previous"] for entry in entries] == [EMPTY, *heads[:-1]]
    assert read(tmp_path / "new" / AUDIT).head == heads[-1]
    assert (tmp_path / "new" / AUDIT).stat().st_mode & 0o777 == 0o600
    assert read(tmp_path / "none").entries == []


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log, and its lines."""
    path = tmp_path_factory.mktemp("log") / AUDIT
    return path, written(path)[1]


def test_other_ends_of_lines_hide_nothing(log):
    path, lines = log
    for end in (b"\r", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\x00"):
        path.write_bytes(lines[0] + end + b"".join(lines[1:]))
        assert read(path).problem


@given(data=st.data())
def test_every_change_of_a_line_is_found(log, data):
    path, lines = log
    content = bytearray(b"".join(lines))
    where = data.draw(st.integers(0, len(content) - 2))
    content[where] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    trail = read(path)
    assert trail.problem
    assert not trail.torn
    assert trail.complete <= where
    with pytest.raises(FileError, match="broken"):
        record(path, "begin", {})


def test_a_second_value_in_front_of_the_first_is_found(log):
    """JSON takes the last of two, and whoever reads the line the first."""
    path, lines = log
    path.write_bytes(lines[0].replace(b"{", b'{"epsilon": 0.1, ', 1) + b"".join(lines[1:]))
    assert "line 1 was changed" in read(path).problem


@pytest.mark.parametrize("order", [[0, 2, 3, 4], [1, 2, 3, 4], [0, 2, 1, 3, 4], [0, 1, 1, 2, 3, 4]])
def test_lines_that_are_removed_moved_or_repeated(tmp_path, order):
    _, lines = written(tmp_path / AUDIT)
    (tmp_path / AUDIT).write_bytes(b"".join(lines[k] for k in order))
    assert "does not follow" in read(tmp_path / AUDIT).problem
    done = call("audit", tmp_path)
    assert done.exit_code == 3
    assert "does not follow" in done.stderr


def test_an_end_that_is_removed_is_found_by_a_head_that_was_noted(tmp_path):
    heads, lines = written(tmp_path / AUDIT)
    assert call("audit", tmp_path, "--head", heads[-1][:12]).exit_code == 0
    (tmp_path / AUDIT).write_bytes(b"".join(lines[:3]))
    assert call("audit", tmp_path).exit_code == 0
    assert call("audit", tmp_path, "--head", heads[-1]).exit_code == 3
    # a variable that is not set must not pass for a head that was found
    assert "too short" in call("audit", tmp_path, "--head", "").stderr


def test_a_line_that_a_power_cut_left_incomplete_is_replaced(tmp_path):
    _, lines = written(tmp_path / AUDIT, 2)
    (tmp_path / AUDIT).write_bytes(lines[0] + lines[1][:-9])
    assert read(tmp_path / AUDIT).torn
    assert "incomplete" in call("audit", tmp_path).stdout
    record(tmp_path / AUDIT, "begin", {})
    trail = read(tmp_path / AUDIT)
    assert (len(trail.entries), trail.problem, trail.torn) == (2, "", False)


def test_a_node_records_what_it_does(kit, tmp_path):
    records = bm.Empirical(np.random.default_rng(0).normal(0, 0.5, (500, 1)))
    worked(kit, tmp_path, records, privacy=PrivacyLevel(1.0, 1e-6), duration=0.1)
    begin, end = read(tmp_path / AUDIT).entries
    assert (begin["event"], begin["network"], begin["run"]) == ("begin", kit.network.fingerprint, kit.network.run)
    assert (begin["epsilon"], begin["delta"], begin["records"], begin["reg"]) == (1.0, 1e-6, 500, 0.3)
    assert (end["event"], end["ending"]) == ("end", "out_of_time")
    assert kit.keys.secret not in (tmp_path / AUDIT).read_text()
    shown = call("audit", tmp_path).stdout
    assert "epsilon 1.0, delta 1e-06" in shown
    assert end["hash"] in shown


def test_without_the_log_the_data_are_not_used(kit, tmp_path, monkeypatch):
    (tmp_path / AUDIT).write_text("{}\n")
    with pytest.raises(FileError, match=r"audit log .* is broken"):
        asyncio.run(open_peer(kit, MEASURE, tmp_path))
    monkeypatch.setattr(audit.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    (tmp_path / AUDIT).unlink()
    with pytest.raises(FileError, match="No space left"):
        asyncio.run(open_peer(kit, MEASURE, tmp_path))
