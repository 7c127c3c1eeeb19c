"""``barymesh dashboard`` and ``--open``, as they are called."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from barymesh.cli import dashboard as command
from barymesh.cli.dashboard import source_of, with_dashboard
from barymesh.cli.peers.node import _watchable
from barymesh.dashboard.folder import FolderSource
from barymesh.dashboard.peers import PeersSource
from barymesh.dashboard.server import AccessPolicy, serve
from barymesh.errors import FileError, MissingPackageError, OptionError
from barymesh.peers.members import KITS, NewNode, create
from tests.dashboard.serving import QUIET


def test_what_to_watch(tmp_path):
    assert isinstance(source_of([str(tmp_path)]), FolderSource)
    ports = source_of(["127.0.0.1:9101", "[::1]:9102"])
    assert isinstance(ports, PeersSource)
    assert [(place.host, place.port) for place in ports.places] == [("127.0.0.1", 9101), ("::1", 9102)]
    (tmp_path / "result.npz").write_bytes(b"")
    assert source_of([str(tmp_path / "result.npz")]).folder == tmp_path
    with pytest.raises(OptionError, match="one folder"):
        source_of(["out", "127.0.0.1:9101"])
    with pytest.raises(FileError, match="no file"):
        source_of([str(tmp_path / "network.toml")])


def test_bokeh_is_asked_for_by_name(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(MissingPackageError, match=r"bokeh.*pip install 'barymesh\[dashboard\]'"):
        with_dashboard(True, tmp_path, lambda: pytest.fail("nothing may begin before the error"))
    assert with_dashboard(False, tmp_path, lambda: 7) == 7


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"127.0.0.1:{port}.*--port"):
            asyncio.run(serve(FolderSource(Path()), AccessPolicy(port=port), print, asyncio.Event()))


def test_open_beside_a_run_that_nobody_sits_in_front_of(tmp_path):
    """It must not wait for anybody, and print nothing but JSON where that is asked for."""
    for name, shift in (("a", -1.0), ("b", 1.0)):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(shift, 0.3, (50, 1)))
    (tmp_path / "run.toml").write_text('data = ["a.npy", "b.npy"]\nreg = 0.1\nsupport = "30:-3:3"\nkind = "samples"\n')
    run = [sys.executable, "-m", "barymesh", "run", str(tmp_path / "run.toml"), "--open", "--json"]
    done = subprocess.run(run, env=QUIET, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["success"]
    assert done.stderr.startswith("Dashboard: http://127.0.0.1:")


def test_it_ends_with_the_process_that_started_it(tmp_path):
    attached = [sys.executable, "-m", "barymesh", "dashboard", str(tmp_path), "--attached"]
    with subprocess.Popen(attached, env=QUIET, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"Dashboard: ")
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_node_without_a_status_port_cannot_be_watched(tmp_path):
    nodes = [NewNode(name, f"tcp://127.0.0.1:{5000 + k}") for k, name in enumerate("ab")]
    create(tmp_path, nodes, [("a", "b")], support="10:0:1", reg=0.1)
    kit = tmp_path / KITS / "a"
    with pytest.raises(OptionError, match="status=PORT"):
        _watchable(kit)


def test_a_browser_is_opened_only_where_there_is_a_screen(monkeypatch, capsys):
    import webbrowser

    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    command._announce("http://a/", True)
    monkeypatch.setenv("DISPLAY", ":0")
    command._announce("http://b/", False)
    command._announce("http://c/", True)
    assert opened == ["http://c/"]
    assert capsys.readouterr().out.splitlines()[0] == "Dashboard: http://a/"
