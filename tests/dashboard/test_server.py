"""Who is let in: over real HTTP, for pages, scripts and the socket."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
from urllib.parse import urlsplit

import pytest

from barymesh.dashboard import server
from barymesh.dashboard.folder import FolderSource
from barymesh.dashboard.server import AccessPolicy
from barymesh.errors import FileError, OptionError
from tests.dashboard.serving import serving

TOKEN = "a-token_of-some-length"
PATHS = ("/", "/static/js/bokeh.min.js", "/ws", "/favicon.ico", "/autoload.js")
SOCKET = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip


def asked(address, path="/", **headers):
    """Status, headers and beginning of the text of an answer."""
    where = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", where.port, timeout=20)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers={**(SOCKET if path == "/ws" else {}), **given})
    answer = connection.getresponse()
    text = b"" if answer.status == 101 else answer.read()
    connection.close()
    return answer.status, answer.headers, text.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def open_address(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("empty")) as address:
        yield address


@pytest.fixture(scope="module")
def locked_address(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    with serving(tmp_path_factory.mktemp("empty"), "--host", "0.0.0.0", "--token-file", path) as address:
        yield address


def test_on_this_machine_nothing_is_asked(open_address):
    assert open_address.startswith("http://127.0.0.1:")
    for name in ("127.0.0.1", "localhost"):
        status, _, text = asked(open_address, Host=f"{name}:{urlsplit(open_address).port}")
        assert status == 200
        assert "No run has begun" in text
    # nothing comes from elsewhere
    assert "https://" not in asked(open_address)[2].replace("https://fonts", "")


@pytest.mark.parametrize("path", PATHS)
def test_other_names_for_this_machine_are_refused(open_address, path):
    assert asked(open_address, path, Host="evil.example")[0] == 403
    assert asked(open_address, path, Host="127.0.0.1.evil.example:80")[0] == 403


@pytest.mark.parametrize("path", PATHS)
def test_other_pages_are_refused(open_address, path):
    assert asked(open_address, path, Origin="http://evil.example")[0] == 403
    assert asked(open_address, path, Origin="null")[0] == 403


def test_it_listens_on_this_machine_only(open_address):
    # another address of the same machine, where the operating system has more than one
    with pytest.raises((ConnectionRefusedError, TimeoutError)):
        socket.create_connection(("127.0.0.2", urlsplit(open_address).port), timeout=5)


@pytest.mark.parametrize("path", PATHS)
def test_beyond_it_a_token_is_needed(locked_address, path):
    assert asked(locked_address, path)[0] == 401
    assert asked(locked_address, f"{path}?token=wrong")[0] == 401
    cookie = f"barymesh-{urlsplit(locked_address).port}="
    assert asked(locked_address, path, Cookie=f"{cookie}wrong")[0] == 401
    assert asked(locked_address, path, Cookie="\x00;=;")[0] in (400, 401)
    if path not in ("/ws", "/autoload.js"):  # the browser's tests use these two, as only it can
        assert asked(locked_address, path, Cookie=f"{cookie}{TOKEN}")[0] == 200


def test_the_token_moves_from_the_address_into_a_cookie(locked_address):
    assert "?token=" in locked_address
    status, headers, _ = asked(locked_address, f"/?token={TOKEN}")
    assert (status, headers["Location"]) == (302, "/")
    kept = headers["Set-Cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=Lax" in kept
    status, _, text = asked(locked_address, Cookie=kept.partition(";")[0])
    assert status == 200
    assert TOKEN not in text


def test_there_is_no_door_to_others_without_a_token():
    assert AccessPolicy.checked("127.0.0.1", 0, None).token is None
    made = [AccessPolicy.checked("0.0.0.0", 0, None).token for _ in range(2)]
    assert min(map(len, made)) >= 32
    assert made[0] != made[1]
    assert AccessPolicy.checked("a.example", 0, None).token is not None
    for bad in ("short", "with spaces; and more"):
        with pytest.raises(OptionError, match="8 or more letters"):
            AccessPolicy.checked("0.0.0.0", 0, bad)


def test_the_token_is_no_argument(tmp_path, monkeypatch):
    """Every user of a machine can see the arguments of all processes."""
    path = tmp_path / "token"
    monkeypatch.delenv("BARYMESH_DASHBOARD_TOKEN", raising=False)
    assert AccessPolicy.token_from(None) is None
    monkeypatch.setenv("BARYMESH_DASHBOARD_TOKEN", "from-the-environment")
    assert AccessPolicy.token_from(None) == "from-the-environment"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    assert AccessPolicy.token_from(path) == TOKEN
    path.chmod(0o640)
    with pytest.raises(OptionError, match="chmod 600"):
        AccessPolicy.token_from(path)
    with pytest.raises(FileError, match="cannot be read"):
        AccessPolicy.token_from(tmp_path / "none")


@pytest.mark.parametrize("path", [*PATHS[:2], "/nothing"])
def test_no_other_page_may_frame_it_and_only_our_scripts_run(open_address, locked_address, path):
    for address in (open_address, locked_address):
        _, headers, text = asked(address, path)
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["X-Content-Type-Options"] == "nosniff"
        (policy,) = headers.get_all("Content-Security-Policy")
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        if path == "/" and address == open_address:
            (nonce,) = re.findall(r"script-src 'self' 'nonce-([^']+)' 'unsafe-eval';", policy)
            assert text.count("<script") == text.count(f'<script nonce="{nonce}"') > 3
            assert nonce not in asked(address, path)[2]


def raw(address, request):
    """The answer to these bytes, and what is left when the server has closed the connection."""
    with socket.create_connection(("127.0.0.1", urlsplit(address).port), timeout=20) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


@pytest.mark.parametrize(
    "headers", [b"", b"Host: localhost\r\nHost: localhost\r\n", b"Host: localhost\r\nX: " + b"x" * 20_000 + b"\r\n"]
)
def test_requests_without_a_host_with_two_and_with_too_many_headers(open_address, headers):
    answer = raw(open_address, b"GET / HTTP/1.1\r\n" + headers + b"\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_idle_clients_are_disconnected(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "IDLE", 0.3)

    async def work():
        over, ready = asyncio.Event(), asyncio.Future()
        serving = asyncio.create_task(server.serve(FolderSource(tmp_path), AccessPolicy(), ready.set_result, over))
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(await ready).port)
        writer.write(b"GET / HTTP/1.1\r\nHost: local")
        closed = await asyncio.wait_for(reader.read(), 20)
        over.set()
        writer.close()
        await serving
        return closed

    assert asyncio.run(work()) == b""
