"""The status of a node, served over HTTP to the same machine: ``/status`` and ``/estimate`` (JSON), ``/metrics``
(Prometheus) and ``/healthz``. It shows no secret and changes nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from barymesh.errors import NetworkError
from barymesh.extras import needs
from barymesh.transport.subscriber import LinkState

with needs("peers"):
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
    from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
# a request without a body is far shorter, and has far fewer headers
_REQUEST_BYTES = 8192
_MAX_HEADERS = 64
# seconds for reading a request and sending the answer
_TIMEOUT = 5.0
# requests served at the same time: for a further one the oldest is dropped, so that idle clients keep nobody out
_MAX_REQUESTS = 32
# names of this machine, with any port: it may be forwarded
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)

Facts = Mapping[str, Any]


class StatusServer:
    """Serves what ``facts()`` and ``estimate()`` return at ``port`` (0: any free one) of the loopback address, within
    ``async with``. The node is healthy while ``facts()["healthy"]`` is true. ``estimate()`` holds the estimate of
    the barycenter."""

    def __init__(self, facts: Callable[[], Facts], port: int, estimate: Callable[[], Facts] = dict) -> None:
        self.port = port
        self._facts, self._estimate = facts, estimate
        self._server: asyncio.Server | None = None
        # the oldest first
        self._requests: dict[asyncio.Task[None], None] = {}

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._on_request, LOOPBACK, self.port, limit=_REQUEST_BYTES)
        except OSError as error:
            raise NetworkError(
                f"The status cannot be served at {LOOPBACK}:{self.port}: {error.strerror or error}. Stop the program "
                "that listens there, or have the network made with another status=PORT for this node."
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        requests = list(self._requests)
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    def _on_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while len(self._requests) >= _MAX_REQUESTS:
            oldest = next(iter(self._requests))
            del self._requests[oldest]
            oldest.cancel()
        request = asyncio.create_task(self._serve(reader, writer))
        self._requests[request] = None
        request.add_done_callback(lambda done: self._requests.pop(done, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                writer.write(self._answer(await _request(reader)))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError):
            # too slow, or disconnected
            pass
        finally:
            # what the client has not read by now is not kept for it
            writer.transport.abort()

    def _answer(self, request: bytes | None) -> bytes:
        if request is None:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too long.\n")
        lines = request.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, "This is not an HTTP/1 request.\n")
        method, path = parts[0], parts[1].partition("?")[0]
        headers = [line.partition(":")[::2] for line in lines[1:] if line]
        if len(headers) > _MAX_HEADERS:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request has too many headers.\n")
        # a name with spaces around it could be another header for a proxy
        hosts = [value.strip(" \t") for name, value in headers if name.strip().lower() == "host"]
        if len(hosts) != 1:
            return _response(HTTPStatus.BAD_REQUEST, "A request must have one Host.\n")
        # DNS rebinding: a web page must not read this under a host name that it resolves to this machine
        if not _HOST.fullmatch(hosts[0]):
            return _response(HTTPStatus.FORBIDDEN, f"Open http://{LOOPBACK}:{self.port}/status.\n")
        if method not in ("GET", "HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "The status is read-only: use GET.\n", "Allow: GET, HEAD")
        status, text, kind = self._page(path)
        return _response(status, text, f"Content-Type: {kind}", body=method == "GET")

    def _page(self, path: str) -> tuple[HTTPStatus, str, str]:
        if path == "/status":
            return HTTPStatus.OK, json.dumps(jsonable(self._facts()), indent=2) + "\n", "application/json"
        if path == "/estimate":
            return HTTPStatus.OK, json.dumps(jsonable(self._estimate())) + "\n", "application/json"
        if path == "/metrics":
            return HTTPStatus.OK, metrics(self._facts()), CONTENT_TYPE_LATEST
        if path == "/healthz":
            if self._facts()["healthy"]:
                return HTTPStatus.OK, "ok\n", "text/plain"
            return HTTPStatus.SERVICE_UNAVAILABLE, "stuck\n", "text/plain"
        return HTTPStatus.NOT_FOUND, "There are /status, /estimate, /metrics and /healthz.\n", "text/plain"


def metrics(facts: Facts) -> str:
    """The facts in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FactsCollector(facts))
    return generate_latest(registry).decode()


class _FactsCollector(Collector):
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts, links, epsilon = self._facts, self._facts["links"], self._facts["privacy"]["epsilon"]
        masks = facts.get("masks") or {"void": 0, "members": [], "why_not": "there are no masks"}
        yield InfoMetricFamily("barymesh", "Which node this is.", {key: str(facts[key]) for key in _IDENTITY})
        for kind, name, meaning, value in (
            (CounterMetricFamily, "activations", "Activations of the node.", facts["activations"]),
            (GaugeMetricFamily, "stopped", "Whether the node knows that the network has converged.", facts["stopped"]),
            (GaugeMetricFamily, "error", "The node's estimate of its L1 distance to the barycenter.", facts["error"]),
            (GaugeMetricFamily, "gap", "The certified gap to the best objective.", facts["gap"]),
            (GaugeMetricFamily, "tv_bound", "The certified total variation to the barycenter.", facts["tv_bound"]),
            (GaugeMetricFamily, "uptime_seconds", "Seconds since the start.", facts["uptime"]),
            (GaugeMetricFamily, "epsilon", "Differential privacy spent; infinite without privacy.", epsilon),
            (GaugeMetricFamily, "uses", "Uses of data in the privacy ledger.", facts["privacy"]["uses"]),
            (CounterMetricFamily, "sent_messages", "Messages sent, per neighbour.", facts["sent_messages"]),
            (CounterMetricFamily, "sent_bytes", "Bytes sent, per neighbour.", facts["sent_bytes"]),
            (CounterMetricFamily, "repeated_messages", "Messages sent again.", facts["repeated_messages"]),
            (CounterMetricFamily, "repeated_bytes", "Bytes sent again.", facts["repeated_bytes"]),
            (CounterMetricFamily, "refused_connections", "Connections refused.", facts["refused_connections"]),
            (
                CounterMetricFamily,
                "void_sums",
                "Masked sums that the root could not use.",
                masks["void"],
            ),
            (GaugeMetricFamily, "sum_members", "Members of the masked sums.", len(masks["members"])),
            (GaugeMetricFamily, "contributes", "Whether the node contributes to masked sums.", not masks["why_not"]),
        ):
            yield kind(f"barymesh_{name}", meaning, value=math.nan if value is None else value)
        connected = GaugeMetricFamily("barymesh_link_connected", "Whether the link is connected.", labels=["peer"])
        messages = CounterMetricFamily("barymesh_received_messages", "Messages received.", labels=["peer"])
        cut_off = GaugeMetricFamily("barymesh_link_cut_off", "Whether the neighbour is cut off.", labels=["peer"])
        cut_offs = CounterMetricFamily("barymesh_cut_offs", "How often the neighbour was cut off.", labels=["peer"])
        received = CounterMetricFamily("barymesh_received_bytes", "Bytes received.", labels=["peer"])
        refused = CounterMetricFamily(
            "barymesh_refused_messages", "Messages received and not used.", labels=["peer", "reason"]
        )
        doubts = GaugeMetricFamily(
            "barymesh_doubts", "What no honest network shows, by node.", labels=["node", "proof"]
        )
        about = Counter((node, one["proof"]) for one in facts.get("doubts", ()) for node in one["nodes"])
        for (node, proof), count in about.items():
            doubts.add_metric([node, str(proof).lower()], count)
        for peer, link in links.items():
            connected.add_metric([peer], link["state"] == LinkState.CONNECTED)
            cut_off.add_metric([peer], link["state"] == LinkState.CUT_OFF)
            cut_offs.add_metric([peer], link["cut_offs"])
            messages.add_metric([peer], link["received_messages"])
            received.add_metric([peer], link["received_bytes"])
            for reason, count in link["refused_messages"].items():
                refused.add_metric([peer, reason], count)
        yield from (connected, cut_off, cut_offs, messages, received, refused, doubts)


_IDENTITY = ("name", "run", "fingerprint", "method", "program", "wire_version")


def query(port: int, timeout: float = 2.0, host: str = LOOPBACK, path: str = "/status") -> dict[str, Any] | None:
    """What the node at this port serves at the path; None if no node answers."""
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=timeout)
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
        "Cache-Control: no-store", "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'", *headers,
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode() + (content if body else b"")


def jsonable(value: Any) -> Any:
    """The value with None in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
