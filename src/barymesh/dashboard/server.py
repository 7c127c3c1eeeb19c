"""The server of the page: for this machine only, or for clients that have the token.

Every request is checked in one place (``GuardedApplication``): pages, scripts and the socket that updates the figures.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import os
import re
import secrets
import signal
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from barymesh.dashboard.page import make_page
from barymesh.dashboard.poller import Poller
from barymesh.dashboard.scene import Source
from barymesh.errors import FileError, OptionError
from barymesh.extras import needs

with needs("dashboard"):
    from bokeh.embed.server import server_html_page_for_session
    from bokeh.resources import Resources
    from bokeh.server.server import BaseServer
    from bokeh.server.tornado import BokehTornado
    from bokeh.server.views.doc_handler import DocHandler
    from tornado.httpserver import HTTPServer
    from tornado.httputil import HTTPHeaders, HTTPServerRequest
    from tornado.ioloop import IOLoop
    from tornado.web import OutputTransform, RequestHandler

# the Host of a page that is served to this machine only
LOCAL_NAME = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)
TOKEN_VARIABLE = "BARYMESH_DASHBOARD_TOKEN"
# fit for addresses and cookies, and not guessed at once
TOKEN = re.compile(r"[A-Za-z0-9_-]{8,}")
# seconds for the last update to reach the browsers
CLOSE_DELAY = 0.2
# seconds for the headers of a request to arrive, and until an idle connection is ended
IDLE = 20.0
# bytes of all headers, and of a body or a message of a browser
MOST_HEADERS, MOST_BODY = 16 * 1024, 2**20
# of every answer. A page that is not ours may not show it in a frame
HEADERS = {
    "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}  # fmt: skip


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

    @classmethod
    def token_from(cls, path: Path | None) -> str | None:
        """The token in the file, else the one in the environment; None if there is none. It is never an argument, as
        every user of a machine can see the arguments of all processes."""
        if path is None:
            return os.environ.get(TOKEN_VARIABLE)
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise FileError(
                f"The file of the token, {path}, cannot be read: {error}. Write one line with 8 or more letters and "
                "digits into it."
            ) from error
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise OptionError(
                f"The file of the token, {path}, is open to other users (mode {stat.S_IMODE(mode):04o}). If no other "
                f"user has read it, `chmod 600 {path}`; else write another token into it."
            )
        return text

    def refusal(self, request: HTTPServerRequest) -> tuple[int, str] | None:
        """Why a request is refused: code and text; None if it is not."""
        if len(request.headers.get_list("Host")) != 1:
            return 400, "A request must have one Host.\n"
        # a web page must not read this under a name of its own that it points to this machine
        if _is_local(self.host) and not LOCAL_NAME.fullmatch(request.host):
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

    def get_handler_delegate(self, request: HTTPServerRequest, target_class: Any, *more: Any, **named: Any) -> Any:
        """Of the classes of Bokeh, that of the page is ours."""
        ours = PageHandler if target_class is DocHandler else target_class
        return super().get_handler_delegate(request, ours, *more, **named)

    def resources(self, absolute_url: str | bool | None = None) -> Resources:
        """Served by this server itself, and no more of it than the page needs."""
        found = super().resources(absolute_url)
        found.components = ["bokeh"]
        return found


class PageHandler(DocHandler):  # type: ignore[misc]
    """The page, with a policy for what it may load and run: from this server, and the scripts that have the nonce of
    this answer. Bokeh compiles the callbacks of a document, which needs 'unsafe-eval', and sets styles."""

    async def get(self, *_: Any, **__: Any) -> None:
        session = await self.get_session()
        document, nonce = session.document, secrets.token_urlsafe(16)
        page = server_html_page_for_session(
            session, resources=self.application.resources(), title=document.title, template=document.template,
            template_variables={**document.template_variables, "nonce": nonce},
        )  # fmt: skip
        self.set_header("Content-Type", "text/html")
        self.set_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'",
        )
        self.write(page)


class SafeHeaders(OutputTransform):
    """Adds to every answer the headers that it does not have yet."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """The answer with these headers."""
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        return status_code, headers, chunk


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
    with Poller(source) as poller:
        # the policy checks the origins, and more strictly
        application = GuardedApplication(
            {"/": lambda document: make_page(document, poller)}, extra_websocket_origins=["*"],
            stats_log_frequency_milliseconds=10**9,
        )  # fmt: skip
        application.policy = policy
        application.add_transform(SafeHeaders)
        http = HTTPServer(
            application, idle_connection_timeout=IDLE, max_header_size=MOST_HEADERS, max_body_size=MOST_BODY,
        )  # fmt: skip
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
