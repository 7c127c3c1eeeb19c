"""The four answers at the top of the page."""

from __future__ import annotations

import numpy as np

from barymesh.dashboard.page import answers_of
from barymesh.dashboard.scene import GAP, Scene
from barymesh.record import NodeState
from tests.dashboard.scenes import scene

WHO, DONE, GOOD, WRONG = "Who is there?", "Is it done?", "How good is it?", "Did anybody misbehave?"


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


def test_without_a_certificate_of_all_it_is_what_nodes_know_of_theirs():
    states = (NodeState.CONVERGED, NodeState.CONVERGED, NodeState.DEAD)
    found = answers_of(scene(*states, gaps=[1e-3, 2e-3, np.nan]))
    assert found[GOOD] == "certified gap 0.002 at all nodes"
    assert answers_of(scene(*states, gaps=[1e-3, np.nan, np.nan]))[GOOD] == "certified gap 0.001 at 1 of 2 nodes"


def test_a_proof_that_somebody_lies_is_told():
    assert answers_of(scene(NodeState.WORKING, proofs=["site-3 or site-4 lies"]))[WRONG] == "site-3 or site-4 lies"


def test_who_misbehaves_is_named():
    states = [NodeState.CUT_OFF] * 7 + [NodeState.STUCK]
    found = answers_of(scene(*states))
    assert found[WRONG] == "cut off: site-0, site-1, site-2, site-3, site-4 and 2 more; stuck: site-7"


def test_without_a_network_nothing_is_asked():
    assert answers_of(Scene("", True)) == {}
