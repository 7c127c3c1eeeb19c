"""The lists by which files of tests are shared out name files that there are."""

from __future__ import annotations

from pathlib import Path

from tests import scheduling


def test_every_file_that_is_named_exists_and_is_named_once():
    named = [*scheduling.WAITING, *scheduling.COMPUTING]
    assert len(set(named)) == len(named)
    assert not [name for name in named if not (Path(__file__).parent / f"{name}.py").is_file()]


def test_the_longest_of_each_kind_come_first():
    assert scheduling.waits("tests/peers/test_faults.py")
    assert not scheduling.waits("tests/scenario/test_faults.py")
    assert scheduling.place("tests/peers/test_attacks.py") == 0
    assert scheduling.place("tests/decentralized/test_sinkhorn.py") == 0
    assert scheduling.place("tests/test_scheduling.py") == len(scheduling.COMPUTING)
