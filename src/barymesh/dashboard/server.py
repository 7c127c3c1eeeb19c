"""The server of the page: for this machine only, or for clients that have the token.

Every request is checked in one place (``GuardedApplication``): pages, scripts and the socket that updates the figures.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from barymesh.dashboard.page import make_page
from barymesh.dashboard.poller import ScenePoller
from barymesh.dashboard.scene import Source
from barymesh.errors import OptionError
from barymesh.extras import needs

with needs("dashboard"):
    from bokeh.resources import Resources
    from bokeh.server.server import BaseServer
    from bokeh.server.tornado import BokehTornado
    from tornado.httpserver import HTTPServer
    from tornado.httputil import HTTPServerRequest
    from tornado.ioloop import IOLoop
    from tornado.web import RequestHandler

# the host names of a page that is served to this machine only
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
# fit for addresses and cookies, and not guessed at once
TOKEN = re.compile(r"[A-Za-z0-9_-]{8,}")
# seconds for the last update to reach the browsers
CLOSE_DELAY = 0.2


@dataclass(frozen=True)
class AccessPolicy:
    """Which requests are accepted. ``host``: the address to listen at; ``port``: 0 for any free one. ``token``: what
    clients must show; None, on this machine only, for no token."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None

    @classmethod
    def checked(cls, host: str, port: int, token: str | None) -> AccessPolicy:
        """A safe policy: beyond this machine there is always a token."""
        if token is not None and not TOKEN.fullmatch(token):
            raise OptionError(
                "The token must be 8 or more letters, digits, '-' or '_'. Leave it out to get a good one."
            )
        if token is None and not _is_local(host):
            token = secrets.token_urlsafe(24)
        return cls(host, port, token)

    def refusal(self, request: HTTPServerRequest) -> tuple[int, str] | None:
        """Why a request is refused: code and text; None if it is not."""
        address = urlsplit(f"//{request.host}")
        # a web page must not read this under a name of its own that it points to this machine
        if _is_local(self.host) and address.hostname not in LOCAL_NAMES:
            return 403, "This page is for the machine it runs on: open it as localhost.\n"
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
            return 403, "The request comes from another page.\n"
        if self.token is not None and not self._knows(request):
            return 401, "A token is needed: open the address that 'barymesh dashboard' printed.\n"
        return None

    def _knows(self, request: HTTPServerRequest) -> bool:
        return any(_same(shown, self.token or "") for shown in (self.given(request), self._kept(request)))

    def given(self, request: HTTPServerRequest) -> str:
        """The token in the address."""
        return parse_qs(request.query).get("token", [""])[-1]

    def _kept(self, request: HTTPServerRequest) -> str:
        """The token in the cookie."""
        try:
            found = SimpleCookie(request.headers.get("Cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    @property
    def cookie(self) -> str:
        """The name of the cookie: one for each port, as browsers share cookies between ports."""
        return f"barymesh-{self.port}"


class GuardedApplication(BokehTornado):  # type: ignore[misc]
    """A Bokeh application that checks every request."""

    policy: AccessPolicy

    def find_handler(self, request: HTTPServerRequest, **more: Any) -> Any:
        """The handler of a request: every request passes here."""
        refusal = self.policy.refusal(request)
        if refusal is not None:
            return self.get_handler_delegate(request, _RefusalHandler, {"refusal": refusal})
        if self.policy.token is not None and self.policy.given(request):
            return self.get_handler_delegate(request, _CookieHandler, {"policy": self.policy})
        return super().find_handler(request, **more)

    def resources(self, absolute_url: str | bool | None = None) -> Resources:
        """Served by this server itself, and no more of it than the page needs."""
        found = super().resources(absolute_url)
        found.components = ["bokeh"]
        return found


class _RefusalHandler(RequestHandler):
    def initialize(self, refusal: tuple[int, str]) -> None:
        self.refusal = refusal

    def prepare(self) -> None:
        self.set_status(self.refusal[0])
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(self.refusal[1])


class _CookieHandler(RequestHandler):
    """Move the token from the address, where others could read it, into a cookie."""

    def initialize(self, policy: AccessPolicy) -> None:
        self.policy = policy

    def get(self) -> None:
        self.set_cookie(self.policy.cookie, self.policy.token or "", httponly=True, samesite="Lax", path="/")
        self.redirect("/")


async def serve(source: Source, policy: AccessPolicy, ready: Callable[[str], None], over: asyncio.Event) -> None:
    """Serve until Ctrl-C, SIGTERM, or ``over``. ``ready`` is called with the address."""
    loop = asyncio.get_running_loop()
    listening = _bound(policy)
    policy = replace(policy, port=listening.getsockname()[1])
    # messages about clients that connect and leave are of no use
    for name in ("bokeh", "tornado.access", "tornado.application"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with ScenePoller(source) as poller:
        # the policy checks the origins, and more strictly
        application = GuardedApplication(
            {"/": lambda document: make_page(document, poller)}, extra_websocket_origins=["*"],
            stats_log_frequency_milliseconds=10**9,
        )  # fmt: skip
        application.policy = policy
        http = HTTPServer(application)
        http.add_sockets([listening])
        server = BaseServer(IOLoop.current(), application, http)
        server.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
        try:
            ready(_address(policy))
            await over.wait()
        finally:
            server.stop(wait=False)
            await asyncio.sleep(CLOSE_DELAY)
            await http.close_all_connections()


def _bound(policy: AccessPolicy) -> socket.socket:
    family = socket.AF_INET6 if ":" in policy.host else socket.AF_INET
    try:
        listening = socket.create_server((policy.host, policy.port), family=family)
        listening.setblocking(False)
        return listening
    except OSError as error:
        raise OptionError(
            f"The dashboard cannot listen at {policy.host}:{policy.port}: {error.strerror or error}. Choose another "
            "--port, 0 for any free one, or another --host."
        ) from error


def _address(policy: AccessPolicy) -> str:
    host = policy.host
    if host in ("0.0.0.0", "::", ""):
        host = socket.gethostname()
    elif ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{policy.port}/" + ("" if policy.token is None else f"?token={policy.token}")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same(shown: str, token: str) -> bool:
    """A comparison whose time does not depend on how much of the token is right."""
    return hmac.compare_digest(shown.encode(), token.encode())
