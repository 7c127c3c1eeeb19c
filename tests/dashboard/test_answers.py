"""The four answers at the top of the page."""

from __future__ import annotations

import numpy as np

from barymesh.dashboard.page import answers_of
from barymesh.dashboard.scene import GAP, NodeTable, Scene
from barymesh.record import NodeState

WHO, DONE, GOOD, WRONG = "Who is there?", "Is it done?", "How good is it?", "Did anybody misbehave?"


def scene(*states, running=True, errors=None, **facts):
    count = len(states)
    nodes = NodeTable(
        names=[f"site-{k}" for k in range(count)], positions=np.zeros((count, 2)),
        errors=np.full(count, np.nan) if errors is None else np.array(errors), states=states,
        edges=np.empty((0, 2), dtype=np.intp), staleness=np.empty(0), total=count, links=0,
    )  # fmt: skip
    return Scene("made up", "", running, nodes=nodes, **facts)


def test_a_run_at_work():
    found = answers_of(scene(NodeState.WORKING, NodeState.CONVERGED, NodeState.WORKING))
    assert found[WHO] == "3 of 3 nodes"
    assert found[DONE] == "not yet: 1 of 3 nodes"
    assert found[GOOD] == "not known yet"
    assert found[WRONG] == "no sign of it"


def test_those_who_are_away_are_named_and_not_waited_for():
    ended = scene(NodeState.CONVERGED, NodeState.DEAD, NodeState.ENDED, NodeState.LEFT, running=False)
    found = answers_of(ended)
    assert found[WHO] == "2 of 4 nodes, without site-1, site-3"
    assert found[DONE] == "yes"
    unfinished = answers_of(scene(NodeState.CONVERGED, NodeState.WORKING, running=False))
    assert unfinished[DONE] == "it ended with 1 of 2 nodes"


def test_the_quality_is_the_certificate_and_the_node_farthest_away():
    states = (NodeState.WORKING, NodeState.WORKING, NodeState.DEAD)
    found = answers_of(scene(*states, errors=[0.25, np.nan, 0.75], counts={GAP: "0.01"}))
    # what a dead node last knew does not count
    assert found[GOOD] == "certified gap 0.01, those present within 0.25 of the mean"


def test_who_misbehaves_is_named():
    states = [NodeState.CUT_OFF] * 7 + [NodeState.STUCK]
    found = answers_of(scene(*states))
    assert found[WRONG] == "cut off: site-0, site-1, site-2, site-3, site-4 and 2 more; stuck: site-7"


def test_without_a_network_nothing_is_asked():
    assert answers_of(Scene("made up", "", True)) == {}
