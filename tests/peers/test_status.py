"""The status of a node over HTTP: only from this machine, only to read, whatever is asked."""

from __future__ import annotations

import asyncio
import json

import pytest

from barymesh.peers import status
from barymesh.peers.status import StatusServer, ask, metrics

FACTS = {
    "name": 'a"b', "run": "r", "fingerprint": "f", "method": "sinkhorn", "healthy": True, "activations": 7,
    "stopped": False, "error": float("nan"), "uptime": 1.5, "messages": {"sent": 3, "sent_bytes": 30}, "strangers": 0,
    "links": {"b": {"state": "connected", "messages": 2, "bytes": 20, "refused": {"STALE": 4}}},
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
    assert json.loads(body) == {**FACTS, "error": None}


def test_the_facts_for_prometheus():
    text = metrics(FACTS)
    assert "barymesh_activations_total 7.0\n" in text
    assert r'name="a\"b"' in text
    assert 'barymesh_link_connected{peer="b"} 1.0' in text
    assert 'barymesh_refused_messages_total{peer="b",reason="STALE"} 4.0' in text


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET /status?x=1 HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /secret.key HTTP/1.1\r\n\r\n", 404),
        (b"GET /../status HTTP/1.1\r\n\r\n", 404),
        (b"POST /status HTTP/1.1\r\n\r\n", 405),
        (b"GET /status HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", 403),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET /status\r\n\r\n", 400),
        (b"x" * 100_000, 431),
    ],
)
def test_every_request_is_answered(request_, code):
    assert asyncio.run(asked(request_)).startswith(f"HTTP/1.1 {code} ")


def test_a_node_that_is_stuck_is_not_well():
    answer = asyncio.run(asked(b"GET /healthz HTTP/1.1\r\n\r\n", {**FACTS, "healthy": False}))
    assert answer.startswith("HTTP/1.1 503 ")


def test_who_says_nothing_is_left(monkeypatch):
    monkeypatch.setattr(status, "_PATIENCE", 0.2)
    assert asyncio.run(asked(b"GET /sta")) == ""


def test_asking_from_python():
    async def work():
        async with StatusServer(lambda: FACTS, 0) as server:
            return await asyncio.to_thread(ask, server.port), server.port

    facts, port = asyncio.run(work())
    assert facts["activations"] == 7
    assert ask(port, 0.5) is None
