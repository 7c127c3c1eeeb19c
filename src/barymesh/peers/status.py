"""How a node fares, told over HTTP to those on the same machine: ``/status`` and ``/estimate`` (JSON), ``/metrics``
(Prometheus) and ``/healthz``. It shows no secret and changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from barymesh.errors import NetworkError
from barymesh.transport.subscriber import LinkState

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
# a request without a body takes far less
_REQUEST_BYTES = 8192
# seconds until a request must be there, and the answer taken
_PATIENCE = 5.0
# who asks at the same time; more are turned away
_CALLERS = 32

Facts = Mapping[str, Any]


class StatusServer:
    """Serves what ``facts()`` returns at ``port`` (0: any free one) of the loopback address, within ``async with``.

    It is well while ``facts()["healthy"]`` holds. ``estimate()``: what the node takes for the barycenter.
    """

    def __init__(self, facts: Callable[[], Facts], port: int, estimate: Callable[[], Facts] = dict) -> None:
        self.port = port
        self._facts, self._estimate = facts, estimate
        self._server: asyncio.Server | None = None
        self._callers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._called, LOOPBACK, self.port, limit=_REQUEST_BYTES)
        except OSError as error:
            raise NetworkError(
                f"The status cannot be served at {LOOPBACK}:{self.port}: {error.strerror or error}. Stop what listens "
                "there, or have the network made with another status=PORT for this node."
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        callers = list(self._callers)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)

    def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._callers) >= _CALLERS:
            writer.close()
            return
        caller = asyncio.create_task(self._attend(reader, writer))
        self._callers.add(caller)
        caller.add_done_callback(self._callers.discard)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer, whatever comes in."""
        try:
            async with asyncio.timeout(_PATIENCE):
                writer.write(self._answer(await _request(reader)))
                await writer.drain()
        except (TimeoutError, OSError):
            # too slow, or gone
            pass
        finally:
            writer.close()

    def _answer(self, request: bytes | None) -> bytes:
        if request is None:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too long.\n")
        lines = request.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, "This is not a request of HTTP/1.\n")
        method, path = parts[0], parts[1].partition("?")[0]
        # a web page must not read this under a name of its own that it points to this machine
        if not all(_is_here(line.partition(":")[2]) for line in lines[1:] if line.lower().startswith("host:")):
            return _response(HTTPStatus.FORBIDDEN, f"Ask for http://{LOOPBACK}:{self.port}/status.\n")
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "This can only be read: use GET.\n", "Allow: GET, HEAD")
        status, text, kind = self._page(path)
        return _response(status, text, f"Content-Type: {kind}", body=method == "GET")

    def _page(self, path: str) -> tuple[HTTPStatus, str, str]:
        if path == "/status":
            return HTTPStatus.OK, json.dumps(plain(self._facts()), indent=2) + "\n", "application/json"
        if path == "/estimate":
            return HTTPStatus.OK, json.dumps(plain(self._estimate())) + "\n", "application/json"
        if path == "/metrics":
            return HTTPStatus.OK, metrics(self._facts()), "text/plain; version=0.0.4"
        if path == "/healthz":
            if self._facts()["healthy"]:
                return HTTPStatus.OK, "ok\n", "text/plain"
            return HTTPStatus.SERVICE_UNAVAILABLE, "not at work\n", "text/plain"
        return HTTPStatus.NOT_FOUND, "There are /status, /estimate, /metrics and /healthz.\n", "text/plain"


def metrics(facts: Facts) -> str:
    """The facts as Prometheus reads them."""
    links: Mapping[str, Facts] = facts["links"]
    by_peer = {_labels(peer=name): link for name, link in links.items()}
    refused = {
        _labels(peer=name, reason=reason): count
        for name, link in links.items()
        for reason, count in link["refused"].items()
    }
    said: list[tuple[str, str, str, Iterable[tuple[str, Any]]]] = [
        ("info", "gauge", "Which node this is.", [(_labels(**{k: facts[k] for k in _WHICH}), 1)]),
        ("activations_total", "counter", "How often the node has acted.", [("", facts["activations"])]),
        ("stopped", "gauge", "Whether the node knows that the network has converged.", [("", facts["stopped"])]),
        ("error", "gauge", "How far from the barycenter it believes to be, in L1.", [("", facts["error"])]),
        ("uptime_seconds", "gauge", "Seconds since the start.", [("", facts["uptime"])]),
        ("sent_messages_total", "counter", "Messages sent.", [("", facts["messages"]["sent"])]),
        ("sent_bytes_total", "counter", "Bytes sent.", [("", facts["messages"]["sent_bytes"])]),
        ("strangers_total", "counter", "How often somebody was not let in.", [("", facts["strangers"])]),
        ("link_connected", "gauge", "Whether the neighbour is connected.",
         [(labels, link["state"] == LinkState.CONNECTED) for labels, link in by_peer.items()]),
        ("received_messages_total", "counter", "Messages received.",
         [(labels, link["messages"]) for labels, link in by_peer.items()]),
        ("received_bytes_total", "counter", "Bytes received.",
         [(labels, link["bytes"]) for labels, link in by_peer.items()]),
        ("refused_messages_total", "counter", "Messages received and not used.", refused.items()),
    ]  # fmt: skip
    lines = []
    for name, kind, meaning, values in said:
        lines += [f"# HELP barymesh_{name} {meaning}", f"# TYPE barymesh_{name} {kind}"]
        lines += [f"barymesh_{name}{labels} {_number(value)}" for labels, value in values]
    return "\n".join(lines) + "\n"


_WHICH = ("name", "run", "fingerprint", "method")


def state(facts: Facts) -> str:
    """How the node with these facts fares, in a word or two."""
    if not facts.get("healthy"):
        return "STUCK"
    if not facts.get("ready"):
        return "starting"
    return "converged" if facts.get("stopped") else "at work"


def ask(port: int, patience: float = 2.0, host: str = LOOPBACK, path: str = "/status") -> dict[str, Any] | None:
    """What the node at this port says at the path; None if nobody, or something else, answers."""
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=patience)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        facts = json.loads(answer.read(2**24)) if answer.status == HTTPStatus.OK else None
        return facts if isinstance(facts, dict) else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


async def _request(reader: asyncio.StreamReader) -> bytes | None:
    """The head of a request; None if it is too long."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return None


def _response(status: HTTPStatus, text: str, *headers: str, body: bool = True) -> bytes:
    content = text.encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}", f"Content-Length: {len(content)}", "Connection: close",
        "Cache-Control: no-store", "X-Content-Type-Options: nosniff", *headers,
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode() + (content if body else b"")


def _is_here(host: str) -> bool:
    return host.strip().rpartition(":")[0] in (LOOPBACK, "localhost") or host.strip() in (LOOPBACK, "localhost")


def _labels(**labels: str) -> str:
    escaped = {k: str(v).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for k, v in labels.items()}
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped.items()) + "}"


def _number(value: Any) -> str:
    return "NaN" if value is None else repr(float(value))


def plain(value: Any) -> Any:
    """What JSON can say: it has no NaN."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
