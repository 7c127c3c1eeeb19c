"""Peers at work, over real sockets on loopback: own clocks, encrypted links, kills and restarts."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.engines.runtime import Pace, Place, Runtime, StopReason, hosted_algorithm
from barymesh.errors import NumericalError, OptionError
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.transport.keys import KeyPair
from barymesh.transport.subscriber import Neighbour
from tests.ports import free_ports

POINTS = np.linspace(-3, 3, 20)
MEASURES = [bm.Gaussian(mean, 0.3 + 0.05 * k) for k, mean in enumerate(np.linspace(-2, 2, 5))]
GRAPH = as_network("cycle", 5)


@pytest.fixture(scope="module")
def truth():
    return bm.barycenter(MEASURES, POINTS, reg=0.3, tol=1e-10).weights


def peer(node, keys, ports, folder=None, incarnation=1, method="sinkhorn", pace=None, tol=1e-6, began=None):
    """The peer of one node, not yet running."""
    problem = Problem.create([MEASURES[node]], POINTS, reg=0.3)
    algorithm = hosted_algorithm(method, problem, Nodes(GRAPH, np.array([node]), np.ones(1)), tol=tol)
    around = [
        Neighbour(f"peer {j}", f"tcp://127.0.0.1:{ports[j]}", nodes=(int(j),), public_key=keys[j].public)
        for j in GRAPH.neighbours_of(node)
    ]
    place = Place("test", f"tcp://127.0.0.1:{ports[node]}", around, keys[node])
    return Runtime(
        algorithm, problem, place, pace or Pace(0.02), began=began, about="a test", incarnation=incarnation,
        state_file=None if folder is None else folder / f"{node}.state",
    )  # fmt: skip


async def at_work(runtime, **options):
    async with runtime.links:
        return await runtime.run(**options)


async def all_at_work(peers, **options):
    return await asyncio.gather(*(at_work(one, **options) for one in peers))


@pytest.mark.parametrize("method", ["sinkhorn", "rounds"])
def test_five_peers_reach_the_barycenter_and_stop(method, truth, tmp_path):
    """Each with a certificate that all have made together, and none has gathered."""
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)
    reports = []

    async def work():
        peers = [peer(k, keys, ports, tmp_path, method=method) for k in range(5)]
        endings = await all_at_work(peers, duration=60, linger=3, report=reports.append, every=0.5)
        return peers, endings

    peers, endings = asyncio.run(work())
    assert endings == [StopReason.CONVERGED] * 5
    for one in peers:
        found = one.snapshot()
        np.testing.assert_allclose(found.weights[0], truth, atol=1e-5)
        assert np.abs(found.weights[0] - truth).sum() <= found.errors[0] <= 1e-5
        assert 0 <= found.gaps[0] < 1e-9
        assert 0.5 * np.abs(found.weights[0] - truth).sum() <= found.tv_bounds[0] + 1e-10
        one.store.close()
    assert len({one.snapshot().gaps[0] for one in peers}) == 1
    assert len(reports) >= 10


def test_a_peer_that_dies_at_once_and_comes_back_goes_on(truth, tmp_path):
    """Its task is cancelled in the middle of work, nothing is reported, and a new one begins from its file."""
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)

    async def work():
        peers = [peer(k, keys, ports, tmp_path) for k in range(5)]
        rest = asyncio.gather(*(at_work(one, duration=60, linger=3) for one in peers[1:]))
        dying = peers[0]
        for _ in range(3):
            work_of_one = asyncio.create_task(at_work(dying))
            await asyncio.sleep(0.4)
            before = dying.host.activations
            work_of_one.cancel()
            await asyncio.gather(work_of_one, return_exceptions=True)
            dying.store.close()
            dying = peer(0, keys, ports, tmp_path, incarnation=50)
            assert dying.host.activations >= before > 0
            assert dying.host.incarnation == 1
        ending = await at_work(dying, duration=60, linger=3)
        return [dying, *peers[1:]], [ending, *await rest]

    peers, endings = asyncio.run(work())
    assert endings == [StopReason.CONVERGED] * 5
    for one in peers:
        np.testing.assert_allclose(one.snapshot().weights[0], truth, atol=1e-5)
        one.store.close()


def test_a_peer_that_lost_its_memory_is_taken_in_again(truth):
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)

    async def work():
        peers = [peer(k, keys, ports) for k in range(5)]
        rest = asyncio.gather(*(at_work(one, duration=60, linger=3) for one in peers[1:]))
        first = asyncio.create_task(at_work(peers[0]))
        await asyncio.sleep(0.8)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        again = peer(0, keys, ports, incarnation=2)
        ending = await at_work(again, duration=60, linger=3)
        return [again, *peers[1:]], [ending, *await rest]

    peers, endings = asyncio.run(work())
    assert endings == [StopReason.CONVERGED] * 5
    for one in peers:
        np.testing.assert_allclose(one.snapshot().weights[0], truth, atol=1e-5)


def test_a_peer_that_lost_its_memory_when_all_was_done_finds_its_way_again(truth):
    """The others have stopped, and must not make it stop where it is."""
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)

    async def work():
        peers = [peer(k, keys, ports) for k in range(5)]
        works = [asyncio.create_task(at_work(one)) for one in peers]
        async with asyncio.timeout(60):
            while not all(one.host.stopped.all() for one in peers):
                await asyncio.sleep(0.05)
        works[0].cancel()
        await asyncio.gather(works[0], return_exceptions=True)
        peers[0] = peer(0, keys, ports, incarnation=2)
        works[0] = asyncio.create_task(at_work(peers[0]))
        async with asyncio.timeout(60):
            while not (peers[0].host.activations > 50 and all(one.host.stopped.all() for one in peers)):
                await asyncio.sleep(0.05)
        for one in peers:
            one.stop()
        await asyncio.gather(*works)
        return [one.snapshot().weights[0] for one in peers]

    for weights in asyncio.run(work()):
        np.testing.assert_allclose(weights, truth, atol=1e-5)


def test_it_stops_when_asked_and_after_its_time():
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)

    async def work():
        alone = peer(0, keys, ports)
        assert await at_work(alone, duration=0.2) is StopReason.OUT_OF_TIME
        waiting = peer(1, keys, ports, pace=Pace(30.0))
        task = asyncio.create_task(at_work(waiting))
        await asyncio.sleep(0.3)
        waiting.stop()
        assert await asyncio.wait_for(task, 10) is StopReason.STOPPED
        assert waiting.snapshot().weights.shape == (1, POINTS.size)

    asyncio.run(work())


@pytest.mark.parametrize(("interval", "jitter"), [(-1, 0.1), (float("nan"), 0), (0.1, 1.0), (0.1, -0.1), ("x", 0)])
def test_a_pace_that_means_nothing_is_refused(interval, jitter):
    with pytest.raises(OptionError):
        Pace(interval, jitter)


def test_the_usual_number_of_activations_comes_from_the_clock():
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)

    async def work():
        one = peer(0, keys, ports, pace=Pace(0.5), began=time.time() - 100.0)
        assert 190 <= one._usual() <= 210
        await one.links.close()

    asyncio.run(work())


def test_a_state_that_cannot_be_published_is_never_kept(tmp_path):
    """Neither on disk nor in memory; without a neighbour to blame it is an error."""
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)
    runtime = peer(0, keys, ports, tmp_path)
    asyncio.run(at_work(runtime, duration=0.2))
    kept = runtime.memory.pack()
    # a message that has led to numbers which no neighbour accepts
    poison = next(iter(runtime.transport.row.values()))
    runtime.transport.arrived[poison] = True
    activate, batch = runtime.host.activate, runtime.host.batch(0)

    def poisoned(batch):
        outgoing = activate(batch)
        runtime.host.state.own.x[:] = 1e300
        outgoing.messages[0, -1] = np.nan
        return outgoing

    runtime.host.activate = poisoned
    assert runtime._activated(batch) is None
    assert not runtime.transport.arrived.any()
    assert runtime.memory.pack()[-len(kept) // 2 :] == kept[-len(kept) // 2 :]
    with pytest.raises(NumericalError, match="Nothing was sent"):
        runtime._activated(batch)
    runtime.close()


def test_a_run_goes_back_from_a_state_that_cannot_be_published(tmp_path):
    """It sends nothing of it, and writes nothing of it to disk."""
    keys, ports = [KeyPair.create() for _ in range(5)], free_ports(5)
    runtime = peer(0, keys, ports, tmp_path)
    activate, calls = runtime.host.activate, []

    def poisoned(batch):
        outgoing = activate(batch)
        calls.append(None)
        if len(calls) == 3:
            runtime.host.state.own.x[:] = 1e300
            outgoing.messages[0, -1] = np.nan
            runtime.stop()
        return outgoing

    runtime.host.activate = poisoned
    assert asyncio.run(at_work(runtime)) is StopReason.STOPPED
    runtime.close()
    assert runtime.transport.sequence == 2
    again = peer(0, keys, ports, tmp_path)
    assert again.host.activations == 2
    assert np.abs(again.host.state.own.x).max() < 1e6
    again.close()
