"""The server of the page: for this machine only, or for whoever knows the token.

Every request passes one door (``Guarded``): pages, scripts and the socket over which the figures are kept up to date.
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

from bokeh.resources import Resources
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from barymesh.dashboard.page import make_page
from barymesh.dashboard.scene import Source
from barymesh.dashboard.watch import Watch
from barymesh.errors import OptionError

# names under which a page of this machine may be asked for
HERE = ("127.0.0.1", "localhost", "::1")
# fit for addresses and cookies, and not guessed at once
TOKEN = re.compile(r"[A-Za-z0-9_-]{8,}")
# seconds that those who look have to hear the last news
FAREWELL = 0.2


@dataclass(frozen=True)
class Door:
    """Who is let in. ``host``: the address to listen at; ``port``: 0 for any free one. ``token``: what visitors must
    show; None, on this machine only, for nothing."""

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None

    @classmethod
    def checked(cls, host: str, port: int, token: str | None) -> Door:
        """A door that is safe: beyond this machine there is always a token."""
        if token is not None and not TOKEN.fullmatch(token):
            raise OptionError(
                "The token must be 8 or more letters, digits, '-' or '_'. Leave it out to get a good one."
            )
        if token is None and not _is_local(host):
            token = secrets.token_urlsafe(24)
        return cls(host, port, token)

    def refusal(self, request: HTTPServerRequest) -> tuple[int, str] | None:
        """Why a request is not answered: code and words."""
        asked = urlsplit(f"//{request.host}")
        # a web page must not read this under a name of its own that it points to this machine
        if _is_local(self.host) and asked.hostname not in HERE:
            return 403, "This page is for the machine it runs on: ask for it as localhost.\n"
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
            return 403, "Another page asked for this.\n"
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
        """Browsers do not tell apart ports: one name for each."""
        return f"barymesh-{self.port}"


class Guarded(BokehTornado):  # type: ignore[misc]
    """A Bokeh application behind a door."""

    door: Door

    def find_handler(self, request: HTTPServerRequest, **more: Any) -> Any:
        """The one place that every request goes through."""
        refusal = self.door.refusal(request)
        if refusal is not None:
            return self.get_handler_delegate(request, _Refuse, {"refusal": refusal})
        if self.door.token is not None and self.door.given(request):
            return self.get_handler_delegate(request, _Keep, {"door": self.door})
        return super().find_handler(request, **more)

    def resources(self, absolute_url: str | bool | None = None) -> Resources:
        """Served by this server itself, and no more of it than the page needs."""
        found = super().resources(absolute_url)
        found.components = ["bokeh"]
        return found


class _Refuse(RequestHandler):
    def initialize(self, refusal: tuple[int, str]) -> None:
        self.refusal = refusal

    def prepare(self) -> None:
        self.set_status(self.refusal[0])
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(self.refusal[1])


class _Keep(RequestHandler):
    """Take the token out of the address, where it could be read over a shoulder, and into a cookie."""

    def initialize(self, door: Door) -> None:
        self.door = door

    def get(self) -> None:
        self.set_cookie(self.door.cookie, self.door.token or "", httponly=True, samesite="Lax", path="/")
        self.redirect("/")


async def serve(source: Source, door: Door, ready: Callable[[str], None], over: asyncio.Event) -> None:
    """Serve until Ctrl-C, SIGTERM, or ``over``. ``ready`` is told the address."""
    loop = asyncio.get_running_loop()
    listening = _bound(door)
    door = replace(door, port=listening.getsockname()[1])
    # what it would say of visitors who come and go is of no use to anybody
    for name in ("bokeh", "tornado.access", "tornado.application"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with Watch(source) as watch:
        # origins are looked at by the door, and more strictly
        application = Guarded(
            {"/": lambda document: make_page(document, watch)}, extra_websocket_origins=["*"],
            stats_log_frequency_milliseconds=10**9,
        )  # fmt: skip
        application.door = door
        http = HTTPServer(application)
        http.add_sockets([listening])
        server = BaseServer(IOLoop.current(), application, http)
        server.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
        try:
            ready(_address(door))
            await over.wait()
        finally:
            server.stop(wait=False)
            await asyncio.sleep(FAREWELL)
            await http.close_all_connections()


def _bound(door: Door) -> socket.socket:
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    try:
        listening = socket.create_server((door.host, door.port), family=family)
        listening.setblocking(False)
        return listening
    except OSError as error:
        raise OptionError(
            f"The dashboard cannot listen at {door.host}:{door.port}: {error.strerror or error}. Choose another "
            "--port, 0 for any free one, or another --host."
        ) from error


def _address(door: Door) -> str:
    host = door.host
    if host in ("0.0.0.0", "::", ""):
        host = socket.gethostname()
    elif ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{door.port}/" + ("" if door.token is None else f"?token={door.token}")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same(shown: str, token: str) -> bool:
    """In a time that does not tell how much of it was right."""
    return hmac.compare_digest(shown.encode(), token.encode())
