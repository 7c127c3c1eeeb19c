"""One problem, every algorithm, every engine: all reach the same barycenter.

The paper's own two methods drift, and cannot: with a small step they come closer before they do, in a real network less
so, as they depend on everybody starting at the same time.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import barymesh as bm
from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.build import choose_step
from barymesh.engines.runtime import Pace, Place, Runtime, hosted_algorithm
from barymesh.errors import OptionError
from barymesh.method_names import NETWORK_METHODS, SYNCHRONOUS
from barymesh.network import as_network
from barymesh.problem import Problem
from barymesh.transport.keys import KeyPair
from barymesh.transport.subscriber import Neighbour
from tests.ports import free_ports

POINTS, REG, GRAPH = np.linspace(-3, 3, 20), 0.3, "complete"
MEASURES = [bm.Gaussian(-1, 0.5), bm.Gaussian(0, 0.6), bm.Gaussian(1.2, 0.4)]
WEIGHTS = np.array([0.5, 0.25, 0.25])
# total variation that must be reached, and the step
METHODS = {
    "sinkhorn": (1e-4, None), "rounds": (1e-4, None), "gossip_sinkhorn": (1e-3, None), "a2dwb_conserving": (0.03, None),
    "a2dwb": (0.12, 0.03), "a2dwb_naive": (0.12, 0.01), "dcwb": (0.01, None),
}  # fmt: skip
INTERVAL, PATIENCE = 0.05, 90.0
# what the drifting methods must reach where processes take their time to start
LATE = 0.3


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One Ray cluster for all: its start takes long."""
    from barymesh.engines.ray import connected

    with connected(None, 2):
        yield


@pytest.fixture(scope="module")
def truth():
    return bm.barycenter(MEASURES, POINTS, reg=REG, weights=WEIGHTS, tol=1e-10).weights


def apart(weights, truth):
    """The mean total variation of the nodes' measures ``(m, n)`` from the truth."""
    return 0.5 * float(np.abs(weights - truth).sum(axis=1).mean())


def wanted(method, engine):
    late = method in ("a2dwb", "a2dwb_naive") and engine in ("processes", "ray")
    return LATE if late else METHODS[method][0]


def library(method, truth, engine, **options):
    """Through ``barycenter``: the closest it came."""
    _, step = METHODS[method]
    if engine != "simulation":
        # no longer than it takes
        options["callback"] = lambda record: record.figures["tv"] <= wanted(method, engine)
    result = bm.barycenter(
        MEASURES, POINTS, reg=REG, weights=WEIGHTS, network=GRAPH, method=method, engine=engine, batch="exact",
        step=step, reference=truth, progress=False, **options,
    )  # fmt: skip
    return result.history["tv"].min()


def simulation(method, truth):
    return library(method, truth, "simulation", duration=200.0, record_every=1.0)


def processes(method, truth):
    return library(
        method, truth, "processes", duration=PATIENCE, record_every=0.1, workers=2, interval=INTERVAL, tol=1e-9
    )


def ray(method, truth):
    return library(method, truth, "ray", duration=PATIENCE, record_every=0.1, workers=2, interval=INTERVAL, tol=1e-9)


def default_step(method):
    """That of the whole problem: a single node does not know the weights of the others."""
    if method != "a2dwb_conserving":
        return None
    problem = Problem.create(MEASURES, POINTS, reg=REG, weights=WEIGHTS)
    return 2 * choose_step(None, problem, as_network(GRAPH, 3), 0)


def peers(method, truth):
    """Every node a peer with its own keys, over encrypted and authenticated links on loopback."""
    tolerance, step = METHODS[method]
    graph = as_network(GRAPH, 3)
    keys, ports = [KeyPair.create() for _ in range(3)], free_ports(3)

    def peer(node):
        own = Problem.create([MEASURES[node]], POINTS, reg=REG)
        weights, choice = WEIGHTS[[node]] * 3, step or default_step(method)
        nodes = Nodes(graph, np.array([node]), weights)
        algorithm = hosted_algorithm(method, own, nodes, batch="exact", step=choice, tol=1e-9)
        around = [
            Neighbour(f"peer {j}", f"tcp://127.0.0.1:{ports[j]}", (int(j),), keys[j].public)
            for j in graph.neighbours_of(node)
        ]
        place = Place("test", f"tcp://127.0.0.1:{ports[node]}", around, keys[node])
        return Runtime(algorithm, own, place, Pace(INTERVAL))

    async def at_work(one):
        async with one.links:
            await one.run(duration=PATIENCE)

    async def work():
        all_peers = [peer(k) for k in range(3)]
        works = [asyncio.create_task(at_work(one)) for one in all_peers]
        best = np.inf
        while best > tolerance and not all(one.done() for one in works):
            await asyncio.sleep(0.1)
            best = min(best, apart(np.vstack([one.snapshot().weights for one in all_peers]), truth))
        for one in all_peers:
            one.stop()
        await asyncio.gather(*works)
        return best

    return asyncio.run(work())


ENGINES = {"simulation": simulation, "processes": processes, "ray": ray, "peers": peers}


@pytest.mark.filterwarnings("ignore::barymesh.errors.DriftWarning")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_every_algorithm_on_every_engine(method, engine, truth):
    if method in SYNCHRONOUS and engine != "simulation":
        # its nodes wait for one another, which no real network here will do
        with pytest.raises(OptionError, match="synchronous"):
            ENGINES[engine](method, truth)
        return
    assert ENGINES[engine](method, truth) <= wanted(method, engine)


def test_no_algorithm_is_left_out():
    assert set(METHODS) == set(NETWORK_METHODS)
