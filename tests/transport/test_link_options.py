"""What cannot work is refused before anything is opened."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from barymesh.errors import NetworkError, NumericalError, OptionError
from barymesh.transport import endpoints
from barymesh.transport.keys import CurveKeyError, KeyPair
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import Neighbour
from barymesh.transport.timing import Timing
from tests.transport.real_links import (
    FORMAT,
    WIDTH,
    Peer,
    run,
)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "127.0.0.1:5555",
        "udp://127.0.0.1:5555",
        "inproc://a",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:0;192.0.2.1:5555",
        "tcp://::1:5555",
        "tcp://a b:5555",
        "ipc://",
    ],
)
def test_what_is_no_endpoint_is_refused(endpoint):
    assert not endpoints.is_local(endpoint)
    with pytest.raises(OptionError, match="not of the form"):
        Links([0], endpoint, [], FORMAT, curve=KeyPair.create())


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("tcp://127.0.0.1:5", True),
        ("tcp://127.8.9.1:5", True),
        ("tcp://[::1]:5", True),
        ("ipc:///tmp/a", True),
        ("tcp://10.0.0.1:5", False),
        ("tcp://localhost:5", False),
    ],
)
def test_local_endpoints(endpoint, local):
    assert endpoints.is_local(endpoints.checked(endpoint)) is local


def test_names_are_resolved_and_addresses_left_alone():
    assert asyncio.run(endpoints.resolved("tcp://127.0.0.1:5")) == "tcp://127.0.0.1:5"
    assert asyncio.run(endpoints.resolved("ipc:///tmp/a")) == "ipc:///tmp/a"
    assert asyncio.run(endpoints.resolved("tcp://localhost:5")) in ("tcp://127.0.0.1:5", "tcp://[::1]:5")


def test_neighbours_that_cannot_be_told_apart_are_refused():
    own, b, c = Peer(0), Peer(1), Peer(2)
    far = "tcp://192.0.2.1:5555"
    for neighbours, error, words in [
        ([b.at(far), Neighbour("c", far, (2,), b.keys.public)], NetworkError, "same public key"),
        ([b.at(far), Neighbour(b.name, far, (2,), c.keys.public)], NetworkError, "two neighbours"),
        ([b.at(far), Neighbour("c", far, (1, 2), c.keys.public)], NetworkError, r"both have nodes \[1\]"),
        ([Neighbour("c", far, (0, 2), c.keys.public)], NetworkError, r"nodes of this peer: \[0\]"),
        ([Neighbour("c", far, (2,), own.keys.public)], NetworkError, "own public key"),
        ([Neighbour("", far, (2,), c.keys.public)], NetworkError, "name"),
        ([Neighbour("c", far, (2,), None)], CurveKeyError, "no public key"),
        ([Neighbour("c", far, (2,), "x" * 10)], CurveKeyError, "malformed"),
        ([Neighbour("c", far, (2,), "0" * 40)], CurveKeyError, "protects nothing"),
    ]:
        with pytest.raises(error, match=words):
            own.links(neighbours=neighbours)


def test_keys_on_one_side_only_are_refused():
    with pytest.raises(CurveKeyError, match=r"a public key.*no key pair"):
        Peer(0).links(neighbours=[Peer(1).at("tcp://127.0.0.1:5")], curve=None)


def test_a_port_in_use_is_named():
    async def work():
        async with Peer(0).links() as taken:
            with pytest.raises(NetworkError, match=f"Cannot listen at {taken.endpoint}.*in use"):
                await Peer(1).links(taken.endpoint).__aenter__()

    run(work())


def test_only_own_nodes_and_good_numbers_are_published():
    async def work():
        async with Peer(0).links() as tested:
            with pytest.raises(OptionError, match="Node 3 is not a node of this peer"):
                tested.publish(3, 0, 0, np.zeros(WIDTH))
            with pytest.raises(NumericalError, match="Nothing was sent"):
                tested.publish(0, 0, 0, np.full(WIDTH, np.nan))
            assert tested.sent_messages == 0
            with pytest.raises(OptionError, match="no neighbour 'b'"):
                await tested.remove("b")

    run(work())


@pytest.mark.parametrize("bad", [{"heartbeat": 0}, {"timeout": 1e5}, {"retry": float("nan")}])
def test_a_timing_that_means_nothing_is_refused(bad):
    with pytest.raises(OptionError, match=next(iter(bad))):
        Timing(**bad)
