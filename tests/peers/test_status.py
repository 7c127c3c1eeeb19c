"""The status of a node over HTTP: read-only, for the same machine, whatever is asked."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barymesh.peers import status
from barymesh.peers.status import StatusServer, metrics, query

FACTS = {
    "name": 'a"b', "run": "r", "fingerprint": "f", "method": "sinkhorn", "healthy": True, "activations": 7,
    "program": "0.2", "wire_version": 3,
    "privacy": {"epsilon": math.inf, "uses": 2}, "stopped": False, "error": float("nan"),
    "gap": None, "tv_bound": None, "uptime": 1.5,
    "sent_messages": 3, "sent_bytes": 30, "repeated_messages": 1, "repeated_bytes": 10, "refused_connections": 5,
    "masks": {"void": 6, "members": ["a", "b"], "why_not": ""},
    "links": {
        "b": {
            "state": "connected", "received_messages": 2, "received_bytes": 20, "refused_messages": {"STALE": 4},
            "cut_offs": 1,
        }
    },
}  # fmt: skip


async def asked(request, facts=FACTS):
    """The answer to the bytes of a request."""
    async with StatusServer(lambda: facts, 0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
    return answer.decode()


def test_the_facts_as_json():
    answer = asyncio.run(asked(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n"))
    head, body = answer.split("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK")
    assert json.loads(body) == {**FACTS, "error": None, "privacy": {"epsilon": None, "uses": 2}}


def test_the_facts_for_prometheus():
    families = {family.name: family for family in text_string_to_metric_families(metrics(FACTS))}
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for one in families.values()
        for sample in one.samples
    }
    assert math.isnan(samples.pop(("barymesh_error",)))
    assert samples == {
        ("barymesh_info", "0.2", "3", 'a"b', "f", "r", "sinkhorn"): 1.0,
        ("barymesh_link_cut_off", "b"): 0.0,
        ("barymesh_cut_offs_total", "b"): 1.0,
        ("barymesh_activations_total",): 7.0,
        ("barymesh_stopped",): 0.0,
        ("barymesh_gap",): pytest.approx(math.nan, nan_ok=True),
        ("barymesh_tv_bound",): pytest.approx(math.nan, nan_ok=True),
        ("barymesh_uptime_seconds",): 1.5,
        ("barymesh_epsilon",): math.inf,
        ("barymesh_uses",): 2.0,
        ("barymesh_sent_messages_total",): 3.0,
        ("barymesh_sent_bytes_total",): 30.0,
        ("barymesh_repeated_messages_total",): 1.0,
        ("barymesh_repeated_bytes_total",): 10.0,
        ("barymesh_refused_connections_total",): 5.0,
        ("barymesh_void_sums_total",): 6.0,
        ("barymesh_sum_members",): 2.0,
        ("barymesh_contributes",): 1.0,
        ("barymesh_link_connected", "b"): 1.0,
        ("barymesh_received_messages_total", "b"): 2.0,
        ("barymesh_received_bytes_total", "b"): 20.0,
        ("barymesh_refused_messages_total", "STALE", "b"): 4.0,
    }
    assert families["barymesh_activations"].type == "counter"
    assert families["barymesh_stopped"].type == "gauge"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200),
        (b"HEAD /metrics HTTP/1.1\r\nhost:\t127.0.0.1:9101 \r\n\r\n", 200),
        (b"GET /status?x=1 HTTP/1.0\r\nHost: LOCALHOST\r\n\r\n", 200),
        (b"GET /secret.key HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /../status HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"POST /status HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /status HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", 403),
        (b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:80.evil.example\r\n\r\n", 403),
        (b"GET /status HTTP/1.1\r\nHost: localhost:evil\r\n\r\n", 403),
        (b"GET /status HTTP/1.1\r\nHost: user@localhost\r\n\r\n", 403),
        (b"GET /status HTTP/1.1\r\nHost: \r\n\r\n", 403),
        (b"GET /status HTTP/1.1\r\n\r\n", 400),
        (b"GET /status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET /status HTTP/1.1\r\nHost: localhost\r\nHost : evil.example\r\n\r\n", 400),
        (b"GET /status HTTP/1.1\r\nHost: localhost\r\n" + 100 * b"a: b\r\n" + b"\r\n", 431),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET /status\r\n\r\n", 400),
        (b"x" * 100_000, 431),
    ],
)
def test_every_request_is_answered(request_, code):
    assert asyncio.run(asked(request_)).startswith(f"HTTP/1.1 {code} ")


def test_a_node_that_is_stuck_is_not_healthy():
    answer = asyncio.run(asked(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", {**FACTS, "healthy": False}))
    assert answer.startswith("HTTP/1.1 503 ")


def test_a_client_that_sends_nothing_is_disconnected(monkeypatch):
    monkeypatch.setattr(status, "_TIMEOUT", 0.2)
    assert asyncio.run(asked(b"GET /sta")) == ""


def test_nothing_is_kept_for_a_client_that_does_not_read(monkeypatch):
    """An answer that is longer than the buffers of the system."""
    monkeypatch.setattr(status, "_TIMEOUT", 0.2)

    async def work():
        async with StatusServer(lambda: FACTS, 0, lambda: {"weights": [0.1] * 2_000_000}) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**10)
            writer.write(b"GET /estimate HTTP/1.1\r\nHost: localhost\r\n\r\n")
            # this side reads no more than its limit; that the other has ended it is found by writing
            while True:
                writer.write(b"still here")
                await writer.drain()
                await asyncio.sleep(0.05)

    with pytest.raises(ConnectionError):
        asyncio.run(asyncio.wait_for(work(), 20))


def test_idle_clients_keep_nobody_out():
    async def work():
        async with StatusServer(lambda: FACTS, 0) as server:
            idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3 * status._MAX_REQUESTS)]
            facts = await asyncio.to_thread(query, server.port)
            # the first have been disconnected, and no more than the limit are kept
            assert await asyncio.wait_for(idle[0][0].read(), 20) == b""
            assert len(server._requests) <= status._MAX_REQUESTS
            for _, writer in idle:
                writer.close()
        return facts

    assert asyncio.run(work())["activations"] == 7


def test_asking_from_python():
    async def work():
        async with StatusServer(lambda: FACTS, 0) as server:
            return await asyncio.to_thread(query, server.port), server.port

    facts, port = asyncio.run(work())
    assert facts["activations"] == 7
    assert query(port, 0.5) is None
