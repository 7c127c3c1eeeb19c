"""A node built from its kit and its data, and what it refuses before it starts."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import barymesh as bm
from barymesh.core import tree
from barymesh.engines.runtime import StopReason, new_incarnation
from barymesh.errors import BarymeshError, DimensionError, FileError, MeasureError, NetworkError
from barymesh.io.files import read_measure
from barymesh.io.output import RESULT
from barymesh.peers.kit import Kit
from barymesh.peers.members import KITS, NewNode, create
from barymesh.peers.node import READMIT, STATE, PrivacyLevel, open_peer
from barymesh.transport.wire import NONE, Message
from tests.ports import free_ports

MEASURE = bm.Empirical(np.array([[-1.0], [0.5]]))


def network_of(folder, names="ab", **options):
    """A network on free ports of this machine, every node with a status port."""
    ports = free_ports(2 * len(names))
    nodes = [NewNode(name, f"tcp://127.0.0.1:{ports[2 * k]}", None, ports[2 * k + 1]) for k, name in enumerate(names)]
    pairs = list(itertools.pairwise(names))
    return create(folder, nodes, pairs, **{"support": "20:-3:3", "reg": 0.3, **options})


@pytest.fixture
def kit(tmp_path):
    network_of(tmp_path)
    return Kit.open(tmp_path / KITS / "a")


def worked(kit, folder, measure=MEASURE, privacy=None, budget=None, sync=False, **options):
    async def work():
        peer = await open_peer(kit, measure, folder, privacy, budget=budget, sync=sync)
        return await peer.run(**options), peer

    return asyncio.run(work())


def test_it_writes_state_and_result_and_continues_from_them(kit, tmp_path):
    ending, peer = worked(kit, tmp_path / "run", duration=0.5)
    assert ending is StopReason.OUT_OF_TIME
    stored = bm.load(tmp_path / "run" / RESULT)
    assert stored.weights.shape == (20,)
    assert stored.status is bm.Status.OUT_OF_TIME
    assert stored.activations == peer.runtime.host.activations > 0
    _, again = worked(kit, tmp_path / "run", duration=0.3)
    assert again.runtime.host.activations > peer.runtime.host.activations
    assert again.runtime.host.incarnation == peer.runtime.host.incarnation
    assert kit.keys.secret not in str(again.facts())


def test_a_state_of_other_data_is_refused(kit, tmp_path):
    worked(kit, tmp_path / "run", duration=0.1)
    with pytest.raises(FileError, match="another run"):
        worked(kit, tmp_path / "run", bm.Empirical(np.array([[0.0]])), duration=0.1)
    # and nothing was left open
    worked(kit, tmp_path / "run", duration=0.1)


def test_a_node_runs_once_at_a_time(kit, tmp_path):
    async def work():
        peer = await open_peer(kit, MEASURE, tmp_path / "run")
        with pytest.raises(FileError, match="running already"):
            await open_peer(kit, MEASURE, tmp_path / "run")
        other = await open_peer(kit, MEASURE, tmp_path / "other")
        async with peer.runtime.links:
            with pytest.raises(NetworkError, match="Cannot listen"):
                await other.run()
        peer.runtime.store.close()

    asyncio.run(work())


def test_a_disk_that_is_full_for_a_while_does_no_harm(kit, tmp_path, monkeypatch):
    async def work(until):
        peer = await open_peer(kit, MEASURE, tmp_path / "run")
        save = bm.Result.save
        calls = []

        def failing(result, path, **options):
            calls.append(result)
            if len(calls) < until:
                raise FileError("the disk is full")
            return save(result, path, **options)

        with monkeypatch.context() as patched:
            patched.setattr(bm.Result, "save", failing)
            return await peer.run(duration=1.5)

    with pytest.raises(FileError, match="full"):
        asyncio.run(work(100))
    assert asyncio.run(work(2)) is StopReason.OUT_OF_TIME


def test_weights_and_the_place_in_the_tree_are_in_the_status(kit, tmp_path):
    _, peer = worked(kit, tmp_path / "run", duration=0.1)
    facts = peer.facts()
    assert facts["weight"] == 1.0
    assert facts["weights"] == {node.name: node.weight for node in kit.network.nodes}
    assert facts["tree"]["parent"] == facts["tree"]["root"] == kit.name
    assert facts["tree"]["distance"] == 0


def test_data_that_do_not_fit_are_refused(kit, tmp_path):
    with pytest.raises(DimensionError):
        worked(kit, tmp_path / "run", bm.Empirical(np.zeros((3, 2))))
    assert not (tmp_path / "run" / STATE).exists()


def test_one_measure_from_a_file(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1.0], [2.0]]))
    assert read_measure(tmp_path / "x.npy", kind="samples").points.shape == (2, 1)
    np.savez(tmp_path / "x.npz", a=np.ones(3), b=np.ones(3))
    with pytest.raises(MeasureError, match="2 measures"):
        read_measure(tmp_path / "x.npz")
    with pytest.raises(BarymeshError, match=r"none\.csv"):
        read_measure(tmp_path / "none.csv")


def test_a_state_that_a_power_cut_has_damaged_is_set_aside(kit, tmp_path, caplog):
    _, peer = worked(kit, tmp_path / "run", duration=0.3)
    state = tmp_path / "run" / STATE
    state.write_bytes(state.read_bytes()[:50] + bytes(state.stat().st_size - 50))
    _, again = worked(kit, tmp_path / "run", duration=0.1)
    assert again.runtime.host.incarnation != peer.runtime.host.incarnation
    assert (tmp_path / "run" / "state.damaged").exists()
    assert "is damaged" in caplog.text
    # and what it writes now is found again, with --sync too
    _, third = worked(kit, tmp_path / "run", duration=0.1, sync=True)
    assert third.runtime.host.incarnation == again.runtime.host.incarnation


def test_every_incarnation_is_another():
    found = {new_incarnation() for _ in range(1000)}
    assert len(found) == 1000
    assert min(found) > 1
    assert max(found) < 2**63


def test_a_network_made_long_ago_still_converges(tmp_path):
    network_of(tmp_path, began=datetime.now(UTC) - timedelta(days=400), interval=0.02)
    rng = np.random.default_rng(0)
    measures = {name: bm.Empirical(rng.normal(mean, 0.5, (30, 1))) for name, mean in (("a", -1.0), ("b", 1.0))}

    async def work():
        peers = [await open_peer(Kit.open(tmp_path / KITS / n), m, tmp_path / n) for n, m in measures.items()]
        return await asyncio.gather(*(peer.run(duration=40, linger=2) for peer in peers))

    assert asyncio.run(work()) == [StopReason.CONVERGED] * 2
    truth = bm.barycenter(list(measures.values()), np.linspace(-3, 3, 20), reg=0.3, tol=1e-10).weights
    for name in measures:
        np.testing.assert_allclose(bm.load(tmp_path / name / RESULT).weights, truth, atol=1e-5)


def test_a_private_node_reports_what_it_has_spent_and_a_restart_costs_nothing(kit, tmp_path):
    records = bm.Empirical(np.random.default_rng(0).normal(0, 0.5, (500, 1)))
    level = PrivacyLevel(epsilon=1.0, delta=1e-6)
    for _ in range(2):
        _, peer = worked(kit, tmp_path / "run", records, privacy=level, duration=0.1)
        assert peer.facts()["privacy"] | {"epsilon": 1.0} == {
            "epsilon": 1.0,
            "delta": 1e-6,
            "records": 500,
            "uses": 1,
        }
        assert peer.facts()["privacy"]["epsilon"] == pytest.approx(1.0, rel=1e-3)
    # another budget makes another release, which the old state does not fit
    with pytest.raises(FileError, match="another run"):
        worked(kit, tmp_path / "run", records, privacy=PrivacyLevel(0.5, 1e-6), duration=0.1)
    (tmp_path / "run" / STATE).unlink()
    _, peer = worked(kit, tmp_path / "run", records, privacy=PrivacyLevel(0.5, 1e-6), duration=0.1)
    assert peer.facts()["privacy"]["uses"] == 2
    assert peer.facts()["privacy"]["epsilon"] > 1.0


def test_old_messages_are_refused_after_a_restart(kit, tmp_path):
    """The marks of the messages received are on disk with the state of the node."""

    async def work(receives):
        peer = await open_peer(kit, MEASURE, tmp_path / "run")
        host, link = peer.runtime.host, peer.runtime.links._links["b"]
        marks = dict(link.admission.marks)
        if receives:
            message = np.zeros(host.algorithm.width)
            message[tree.ROOT] = -1.0
            peer.runtime.transport.deliver(Message(1, 4, 7, message, NONE))
        await peer.run(duration=0.05)
        return marks

    assert asyncio.run(work(receives=True)) == {}
    # the same message is accepted once more: the node no longer has it
    assert asyncio.run(work(receives=False)) == {1: (4, 6)}


def test_a_file_that_cannot_be_read_does_not_end_the_node(kit, tmp_path, caplog):
    """`barymesh readmit` may be given by somebody whose files the node cannot read."""
    (tmp_path / "run" / READMIT).mkdir(parents=True)
    assert worked(kit, tmp_path / "run", duration=0.1)[0] is StopReason.OUT_OF_TIME
    (tmp_path / "run" / READMIT).rmdir()
    (tmp_path / "run" / READMIT).write_bytes(b"\xff")
    assert worked(kit, tmp_path / "run", duration=0.1)[0] is StopReason.OUT_OF_TIME
    assert [one.levelname for one in caplog.records if "readmit cannot be read" in one.message] == ["ERROR"] * 2


def test_a_slow_clock_makes_no_time_before_the_beginning(tmp_path):
    network_of(tmp_path, began=datetime.now(UTC) + timedelta(minutes=10))
    worked(Kit.open(tmp_path / KITS / "a"), tmp_path / "run", duration=0.1)
    assert bm.load(tmp_path / "run" / RESULT).seconds == 0
