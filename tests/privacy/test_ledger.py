"""The account of what was released: each release once, all of them together, and never silently forgotten."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from barymesh.errors import FileError, PrivacyError
from barymesh.privacy.accounting import composed_epsilon, noise_multiplier
from barymesh.privacy.ledger import LEDGER, Spent, read, record_use
from barymesh.privacy.release import Release


def release(digest, epsilon=1.0, delta=1e-6, records=1000):
    return Release(digest, epsilon, delta, records, noise_multiplier(epsilon, delta))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kit" / LEDGER


def test_a_release_is_counted_once(path):
    first = record_use(path, release("aa"))
    assert first == Spent(pytest.approx(1.0, rel=1e-5), 1e-6, 1000, 1)
    written = path.read_bytes()
    assert record_use(path, release("aa")) == first
    assert path.read_bytes() == written


def test_other_releases_add_up(path):
    record_use(path, release("aa"))
    both = record_use(path, release("bb", epsilon=2.0, delta=1e-7, records=500))
    multipliers = [noise_multiplier(1.0, 1e-6), noise_multiplier(2.0, 1e-7)]
    assert both == Spent(pytest.approx(composed_epsilon(multipliers, 1e-7)), 1e-7, 500, 2)
    assert both.epsilon > 2.0
    # the first one again: nothing is forgotten, nothing added
    assert record_use(path, release("aa")).uses == 2
    assert [entry.digest for entry in read(path)] == ["aa", "bb"]


def test_a_budget_is_not_made_larger_by_a_larger_delta(path):
    record_use(path, release("aa"), budget=1.2)
    written = path.read_bytes()
    for delta in (1e-6, 1e-5, 1e-4):
        with pytest.raises(PrivacyError, match=r"would cost epsilon 1\.\d+, and the budget is 1\.2"):
            record_use(path, release("bb", delta=delta), budget=1.2)
    assert path.read_bytes() == written
    assert record_use(path, release("bb", delta=1e-5), budget=2.0).delta == 1e-6


def test_people_can_read_it(path):
    before = datetime.now(UTC).replace(microsecond=0)
    record_use(path, release("aa"))
    (entry,) = json.loads(path.read_text())
    assert (entry["digest"], entry["epsilon"], entry["delta"], entry["records"]) == ("aa", 1.0, 1e-6, 1000)
    assert before <= datetime.fromisoformat(entry["time"]) <= datetime.now(UTC)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"{}", b'[{"digest": "aa"}]', b"[null]"], ids=range(6))
def test_a_ledger_that_cannot_be_read_is_refused_and_kept(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(FileError, match="no privacy ledger"):
        record_use(path, release("aa"))
    assert path.read_bytes() == content


def test_a_ledger_with_impossible_noise_is_refused(path):
    record_use(path, release("aa"))
    path.write_text(path.read_text().replace('"noise_multiplier": ', '"noise_multiplier": -'))
    with pytest.raises(FileError, match="not positive"):
        record_use(path, release("bb"))


def test_where_nothing_can_be_written_nothing_may_be_released(path):
    path.parent.write_text("a file where the folder should be")
    with pytest.raises(FileError):
        record_use(path, release("aa"))
