"""What a node does, in words: for every state of its links."""

from __future__ import annotations

import json
import time

import pytest

from barymesh.peers import last_run
from barymesh.peers.last_run import LAST_RUN, LastRun
from barymesh.peers.states import TROUBLE, clock, is_trouble, node_state, state_text
from barymesh.record import NodeState
from tests.peers.test_node import kit

__all__ = ["kit"]
SINCE = time.time()
GOOD = {"healthy": True, "ready": True, "stopped": False}


def links(**states):
    return {name: {"state": state.replace("_", " "), "since": SINCE} for name, state in states.items()}


@pytest.mark.parametrize(
    ("facts", "state", "text"),
    [
        ({"ready": False}, NodeState.STARTING, "starting"),
        ({"healthy": False}, NodeState.STUCK, "stuck: it does not act any more"),
        ({"links": links(b="connected")}, NodeState.WORKING, "working"),
        ({"links": links(b="connected", c="never_connected")}, NodeState.WAITING, "waiting for c"),
        ({"links": links(b="lost", c="never_connected")}, NodeState.WAITING, "waiting for b, c"),
        ({"links": links(b="lost"), "stopped": True}, NodeState.CONVERGED, "converged"),
        ({"links": links(b="refused")}, NodeState.CUT_OFF, "cut off by b since {since}"),
        (
            {"links": links(b="wrong_key", c="lost")},
            NodeState.CUT_OFF,
            "wrong key at b since {since}, waiting for c",
        ),
        (
            {"links": links(b="refused"), "stopped": True},
            NodeState.CUT_OFF,
            "converged, cut off by b since {since}",
        ),
        (
            {"links": links(b="cut_off", c="connected")},
            NodeState.WORKING,
            "working, without b, cut off since {since}",
        ),
        (
            {"masks": {"why_not": "there is no roll of members; it takes 3", "absent": []}},
            NodeState.WORKING,
            "working, does not contribute: there is no roll of members; it takes 3",
        ),
        ({"masks": {"why_not": "", "absent": ["d", "e"]}}, NodeState.WORKING, "working, sums without d, e"),
        ({"masks": {"why_not": "", "absent": []}}, NodeState.WORKING, "working"),
    ],
)
def test_states_of_a_node(facts, state, text):
    assert node_state({**GOOD, **facts}) is state
    # the time is no part of a test's name, which must be the same in every process
    assert state_text({**GOOD, **facts}) == text.format(since=clock(SINCE))
    assert (state in TROUBLE) == (state in (NodeState.STUCK, NodeState.CUT_OFF))
    assert is_trouble({**GOOD, **facts}) == (state in TROUBLE or "without b, cut off" in text)


def test_a_time_of_another_day_has_its_date():
    assert len(clock(time.time())) == 5
    assert clock(time.time() - 3 * 86400).startswith("20")


def test_the_note_about_the_last_run(kit, tmp_path):
    network = kit.folder / "network.toml"
    assert last_run.find(network, "a", kit.network.fingerprint) is None
    note = LastRun(kit, tmp_path / "state")
    note.begun()
    for place in (kit.folder, tmp_path / "state"):
        found = last_run.of_folder(place)
        assert last_run.ending(found)[0] is NodeState.DEAD
    # the network file beside the kits
    found = last_run.find(kit.folder.parents[1] / "network.toml", "a", kit.network.fingerprint)
    assert found["folder"] == str(tmp_path / "state")
    assert last_run.find(network, "a", "another") is None
    note.ended("converged", "all agree", True)
    state, text = last_run.ending(last_run.find(network, "a", kit.network.fingerprint))
    assert state is NodeState.ENDED
    assert text.startswith("ended well at ")
    note.ended("out_of_time", "the duration is over", False)
    state, text = last_run.ending(last_run.of_folder(tmp_path / "state"))
    assert state is NodeState.ENDED
    assert "before the network converged" in text
    note.ended("failed", "OSError: the disk", False)
    state, text = last_run.ending(last_run.of_folder(tmp_path / "state"))
    assert state is NodeState.DEAD
    assert text.endswith("OSError: the disk")
    (tmp_path / "state" / LAST_RUN).write_text(json.dumps([]))
    assert last_run.of_folder(tmp_path / "state") is None
