"""Peers that belong together find a version that both speak, and prove that they are there now. Others say why they do
not, on both sides."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.transport import handshake
from barymesh.transport.admission import Tolerance
from barymesh.transport.handshake import PROGRAM, Reply, Request, common_version
from barymesh.transport.subscriber import LinkState
from barymesh.transport.wire import BadMessageError, encode
from tests.transport.real_links import FORMAT, WIDTH, Peer, client, mesh, receive, request, run, state, until

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=16).map(str.strip)
SMALL, NUMBER = st.integers(0, 2**16 - 1), st.integers(0, 2**63 - 1)
VERSIONS = st.tuples(SMALL, SMALL)


@given(VERSIONS, st.integers(0, 2**32 - 1), st.binary(min_size=16, max_size=16), st.tuples(NUMBER, NUMBER), TEXT, TEXT)
def test_what_is_encoded_is_decoded(versions, node, challenge, mark, run_id, program):
    for asked in (
        Request(versions, node, challenge, mark, run_id, program),
        Request(versions, node, challenge, None, run_id, program),
    ):
        assert Request.decode(asked.encode()) == asked
    answer = Reply(versions[0], versions, challenge, mark[0], run_id, program)
    assert Reply.decode(answer.encode()) == answer
    assert handshake.is_handshake(answer.encode())
    assert not handshake.is_handshake(encode("run", 0, 0, 1, np.zeros(2)))


@given(st.binary(max_size=200), st.booleans(), st.sampled_from([Request, Reply]))
def test_anything_else_is_refused(noise, begins_well, kind):
    frame = (Reply(3, (3, 3), bytes(16), 0, "run").encode()[:6] if begins_well else b"") + noise
    # no error but this one; the frame may be a good one by chance
    with suppress(BadMessageError):
        kind.decode(frame)


def test_the_newest_version_that_both_speak():
    assert common_version((3, 5), (4, 9)) == common_version((4, 9), (3, 5)) == 5
    assert common_version((3, 3), (3, 3)) == 3
    assert common_version((3, 3), (4, 9)) == common_version((4, 9), (3, 3)) == 0


def speaking(*versions):
    return replace(FORMAT, versions=versions)


@pytest.mark.parametrize("theirs", [(3, 4), (2, 7)])
def test_two_versions_that_can_talk_do(theirs):
    a, b = Peer(0), Peer(1)

    async def work():
        async with (
            a.links(message_format=speaking(3, 3)) as at_a,
            b.links(neighbours=[a.at(at_a.endpoint)], message_format=speaking(*theirs)) as at_b,
        ):
            at_a.add(b.at(at_b.endpoint))
            for own, other, node in ((at_a, at_b, 0), (at_b, at_a, 1)):
                own.publish(node, 0, 1, np.arange(4.0))
                np.testing.assert_array_equal((await receive(other, node, (0, 1))).vector(), np.arange(4.0))
            found = at_a.status()[b.name]
            assert (found.state, found.program, found.version) == (LinkState.CONNECTED, PROGRAM, 3)

    run(work())


def test_versions_that_cannot_talk_say_so_on_both_sides():
    a, b = Peer(0), Peer(1)

    async def work():
        strict = {"tolerance": Tolerance(bad=1)}
        async with (
            a.links(message_format=speaking(3, 3), **strict) as at_a,
            b.links(neighbours=[a.at(at_a.endpoint)], message_format=speaking(4, 5), **strict) as at_b,
        ):
            at_a.add(b.at(at_b.endpoint))
            at_a.publish(0, 0, 1, np.zeros(WIDTH))
            await state(at_a, b, LinkState.OTHER_VERSION)
            await state(at_b, a, LinkState.OTHER_VERSION)
            assert "speaks versions 4 to 5 of the format, and we speak version 3" in at_a.status()[b.name].note
            assert at_b.status()[a.name].received_messages == 0

    run(work())


def test_a_request_of_an_older_program_is_no_fault():
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1")], tolerance=Tolerance(bad=1)) as at_a:
            with client(b, a, at_a.endpoint) as socket:
                await socket.send(bytes(4))

                def old():
                    at_a.publish(0, 0, 1, np.zeros(WIDTH))
                    return at_a.status()[b.name].refused_messages == {"VERSION": 1}

                await until(old)

    run(work())


def test_peers_of_different_networks_send_each_other_nothing_and_say_so():
    """The messages of one are longer than any socket of the other would take."""
    a, b = Peer(0), Peer(1)
    wide = replace(FORMAT, run="wide", lower=np.zeros(5000), upper=np.ones(5000))

    async def work():
        async with (
            a.links(message_format=wide, tolerance=Tolerance(bad=1)) as at_a,
            b.links(neighbours=[a.at(at_a.endpoint)], tolerance=Tolerance(bad=1)) as at_b,
        ):
            at_a.add(b.at(at_b.endpoint))
            for sequence in range(50):
                at_a.publish(0, 0, sequence, np.zeros(5000))
                at_b.publish(1, 0, sequence, np.zeros(WIDTH))
            await state(at_a, b, LinkState.OTHER_NETWORK)
            await state(at_b, a, LinkState.OTHER_NETWORK)
            found = at_b.status()[a.name]
            assert (found.network, found.received_messages, found.cut_offs) == ("wide", 0, 0)

    run(work())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of a connection")
@pytest.mark.parametrize(("hours", "refused"), [(14, {}), (0, {"BROKEN": 1})])
def test_heartbeats_of_half_a_day_are_no_fault(hours, refused):
    """A neighbour that takes the new network file tomorrow sends nothing else. As much in a moment is a fault."""
    a, b = Peer(0), Peer(1)

    def later(inflow):
        inflow._seen -= 9 * 2**20
        inflow._since -= 3600 * hours

    async def work():
        async with (
            a.links(message_format=replace(FORMAT, run="other")) as at_a,
            b.links(neighbours=[a.at(at_a.endpoint)]) as at_b,
        ):
            at_a.add(b.at(at_b.endpoint))
            link = at_b._links[a.name]

            def asked():
                at_a.publish(0, 0, 1, np.zeros(WIDTH))
                return link.state is LinkState.OTHER_NETWORK

            await until(asked)
            before = link._inflow
            later(before)
            await until(lambda: link._inflow not in (before, None))
            assert at_b.status()[a.name].refused_messages == refused
            # and at the port where the other listens
            inflows = at_a._publisher._inflows
            await until(lambda: inflows._connections)
            for one in inflows._connections.values():
                later(one)
            assert bool(inflows.shut_excessive()) is bool(refused)

    run(work())


# memories that are older than what neighbours know


@pytest.mark.parametrize(("known", "outdated"), [((5, 7), False), ((5, 6), False), ((5, 8), True), ((4, 1), True)])
def test_a_node_learns_from_its_neighbours_that_its_memory_is_old(known, outdated):
    a, b = Peer(0), Peer(1)

    async def work():
        async with a.links(neighbours=[b.at("tcp://127.0.0.1:1")]) as at_a:
            at_a.continue_from(5, 7)
            with client(b, a, at_a.endpoint) as socket:
                await socket.send(request(1, mark=known))

                def answered():
                    if at_a.outdated:
                        return True
                    at_a.publish(0, 5, 7, np.zeros(WIDTH))
                    return at_a.sent_messages > 0

                await until(answered)
                assert at_a.outdated is outdated
                # nothing that the neighbour would take for old is sent, and in a new life everything is
                assert (at_a.sent_messages == 0) is outdated
                at_a.publish(0, 6, 1, np.zeros(WIDTH))
                assert not at_a.outdated
                assert at_a.sent_messages > 0

    run(work())


def test_a_process_that_began_its_own_life_believes_nobody():
    a, b = Peer(0), Peer(1)

    async def work():
        async with mesh(a, b) as (at_a, at_b):
            at_a.publish(0, 5, 1, np.zeros(WIDTH))
            await receive(at_b, 0, (0, 0))
            with client(b, a, at_a.endpoint) as socket:
                await socket.send(request(1, mark=(2**62, 2**62)))
                while not await socket.poll(10):
                    at_a.publish(0, 5, 2, np.zeros(WIDTH))
            assert not at_a.outdated

    run(work())


def test_replies_that_change_their_mind_fill_no_log(caplog):
    """Each would be another state of the link, for people to read."""
    a, b = Peer(0), Peer(1)
    links = a.links(neighbours=[b.at("tcp://127.0.0.1:1")])
    link = links._links[b.name]
    caplog.set_level(logging.INFO)
    first = Reply(3, (3, 3), link.admission.begin(), 1, FORMAT.run)
    link._receive_frame(first.encode())
    assert link.state is LinkState.CONNECTED
    # honest: it begins a new life
    link._receive_frame(replace(first, incarnation=2).encode())
    assert (link.admission.reply.incarnation, link.admission.refused.total()) == (2, 0)
    before = len(caplog.records)
    for number in range(1000):
        link._receive_frame(replace(first, version=0, program=f"0.{number}").encode())
        link._receive_frame(replace(first, incarnation=number).encode())
    assert link.admission.cut_off
    assert len(caplog.records) - before <= 3
