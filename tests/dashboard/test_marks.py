"""What is marked over time."""

from __future__ import annotations

from dataclasses import replace

import barymesh as bm
from barymesh.dashboard.marks import DONE, EPOCH, HARM, ROUNDS, marks_of
from barymesh.record import NodeState
from tests.dashboard.scenes import graph, scene

WHERE = graph(4)
WORKING = [NodeState.WORKING] * 4


def changed(state, *places):
    return [state if k in places else NodeState.WORKING for k in range(4)]


def texts(*scenes):
    timed = [replace(one, now=float(now)) for now, one in enumerate(scenes)]
    return [(mark.place, mark.kind, mark.text) for mark in marks_of(timed)]


def test_deaths_and_returns():
    still = scene(*WORKING, where=WHERE)
    dead = scene(*changed(NodeState.DEAD, 0, 2), where=WHERE)
    assert texts(still, still, dead, dead, still) == [
        (2, HARM, "site-0, site-2 dead"),
        (4, HARM, "site-0, site-2 back"),
    ]
    assert texts(still, scene(*changed(NodeState.LEFT, 1), where=WHERE)) == [(1, HARM, "site-1 left")]
    assert texts(scene(*changed(NodeState.DEAD, *range(4)), where=WHERE)) == []
    assert texts(still, scene(*[NodeState.DEAD] * 4, where=WHERE))[0][2] == "site-0, site-1, site-2 and 1 more dead"


def test_epochs_rounds_and_roots():
    first = scene(*WORKING, where=WHERE, epoch=1.0, parents=[0, 0, 0, 1])
    second = scene(*WORKING, where=WHERE, epoch=2.0, parents=[1, 1, 1, 1])
    rounds = replace(second, rounds=True)
    assert texts(first, second, rounds) == [(1, EPOCH, "epoch 2"), (1, EPOCH, "root site-1"), (2, ROUNDS, "rounds")]
    # while the tree is mended there are several roots: nothing to tell yet
    mending = scene(*WORKING, where=WHERE, epoch=1.0, parents=[0, 0, 2, 2])
    assert texts(first, mending) == []


def test_convergence_of_all_who_are_there():
    states = [NodeState.DEAD, *[NodeState.CONVERGED] * 3]
    before = [NodeState.DEAD, NodeState.WORKING, *[NodeState.CONVERGED] * 2]
    assert texts(scene(*before, where=WHERE), scene(*states, where=WHERE)) == [(1, DONE, "converged")]


def test_a_real_run_whose_root_dies(tmp_path):
    from barymesh.dashboard import LiveFile
    from barymesh.dashboard.folder import FolderSource

    measures = [bm.Gaussian(mean, 0.4) for mean in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    options = {"network": "star", "record_every": 0.5, "duration": 120}
    with LiveFile(tmp_path, "sinkhorn", every=0) as live:
        result = bm.barycenter(
            measures, "20:-3:3", reg=0.2, faults=["crash:node=1,start=2,stop=40"], callback=live, progress=False,
            **options,
        )  # fmt: skip
        result.save(tmp_path / "result.npz")
    found = marks_of(FolderSource(tmp_path).recording().scenes)
    assert [mark.text for mark in found if mark.kind == HARM] == ["1 dead", "1 back"]
    assert found[-1].kind == DONE
    assert ROUNDS in [mark.kind for mark in found]
    assert [mark.now for mark in found] == sorted(mark.now for mark in found)
