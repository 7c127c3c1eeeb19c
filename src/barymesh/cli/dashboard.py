"""``barymesh dashboard``, and ``--open`` of the commands that run something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barymesh.cli.exit_codes import INTERRUPTED, finish
from barymesh.errors import OptionError
from barymesh.extras import needs

if TYPE_CHECKING:
    from barymesh.dashboard.scene import Source

ADDRESS = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
# seconds for which the page is served after a run without a terminal
LINGER = 3.0

Open = Annotated[bool, typer.Option("--open", help="Watch it in the browser: see 'barymesh dashboard --help'.")]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=app.info.epilog)(dashboard)


def dashboard(
    what: Annotated[
        list[str] | None,
        typer.Argument(help="The output folder of a run, a network.toml, or status ports as HOST:PORT. Default: out."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to serve the page; 0 for any free port.")] = 0,
    host: Annotated[str, typer.Option(help="The address to serve at. Beyond this machine a token is needed.")] = (
        "127.0.0.1"
    ),
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file that only you can read, with the token that visitors must show. Default: the environment "
            "variable BARYMESH_DASHBOARD_TOKEN; else none on this machine, and a new one beyond it."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    attached: Annotated[bool, typer.Option("--attached", hidden=True)] = False,
) -> None:
    """Watch a run, or a network of organisations, in the browser: the network, the barycenter forming, the curves.

    A run can be watched from another terminal while it is running, and afterwards. The dashboard reads only. Ctrl-C
    ends it.

    Examples:

      barymesh dashboard out

      barymesh dashboard trial/network.toml

      barymesh dashboard 127.0.0.1:9101 127.0.0.1:9102

      barymesh dashboard out --host 0.0.0.0 --port 8080 --no-browser
    """

    def work() -> int:
        import asyncio

        with needs("dashboard"):
            from barymesh.dashboard.server import AccessPolicy, serve

        source = source_of(what or ["out"])
        policy = AccessPolicy.checked(host, port, AccessPolicy.token_from(token_file))

        async def until_over() -> None:
            over, loop = asyncio.Event(), asyncio.get_running_loop()
            if attached:
                # one that must not be waited for
                end = (lambda: loop.call_soon_threadsafe(over.set),)
                threading.Thread(target=_when_closed, args=end, daemon=True).start()
            await serve(source, policy, lambda address: _announce(address, browser), over)

        asyncio.run(until_over())
        return 0

    finish(work, False)


def source_of(what: Sequence[str]) -> Source:
    """The source of the scenes: a folder, a network file, or addresses."""
    from barymesh.dashboard.folder import FolderSource
    from barymesh.dashboard.peers import PeersSource, StatusAddress
    from barymesh.peers.network_file import NETWORK

    addresses = [ADDRESS.fullmatch(one) for one in what]
    found = [(one["host"].strip("[]"), int(one["port"])) for one in addresses if one is not None]
    if len(found) == len(what):
        return PeersSource([StatusAddress(None, host, port) for host, port in found])
    if len(what) > 1:
        raise OptionError(f"{' '.join(what)}: give one folder, one network.toml, or several addresses as HOST:PORT.")
    path = Path(what[0])
    if path.is_dir() and (path / NETWORK).is_file():
        path = path / NETWORK
    if path.suffix == ".toml":
        return PeersSource.of_file(path)
    return FolderSource(path.parent if path.is_file() else path)


def with_dashboard(wanted: bool, what: Path, work: Callable[[], int]) -> int:
    """Do the work, with a dashboard of ``what`` beside it if one is wanted. Returns what the work does.

    The page is another process: the work never waits for it, and it goes when this process does. At the end it stays
    until Ctrl-C in a terminal, else for some seconds, and shows that the run has ended.
    """
    if not wanted:
        return work()
    # an error before anything is started
    with needs("dashboard"):
        import bokeh  # noqa: F401
    command = [sys.executable, "-m", "barymesh", "dashboard", str(what), "--attached"]
    # a session of its own: the first Ctrl-C is meant for the work
    beside = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert beside.stdin is not None
    assert beside.stdout is not None
    try:
        # it ends by itself if it cannot start, and has printed why
        address = beside.stdout.readline().decode().strip()
        typer.echo(address or "There will be no dashboard.", err=True)
        code = work()
        if address and code != INTERRUPTED:
            _keep_open(beside)
        return code
    finally:
        beside.stdin.close()
        try:
            beside.wait(10)
        except subprocess.TimeoutExpired:
            beside.kill()
            beside.wait()
        beside.stdout.close()


def _keep_open(beside: subprocess.Popen[bytes]) -> None:
    """Keep the page open at the end."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        time.sleep(LINGER)
        return
    typer.echo("The dashboard stays until Ctrl-C.", err=True)
    try:
        beside.wait()
    except KeyboardInterrupt:
        typer.echo("", err=True)


def _announce(address: str, browser: bool) -> None:
    print(f"Dashboard: {address}", flush=True)
    # an address with a token would be an argument of the browser, which every user of the machine can see
    if browser and _has_screen() and "?token=" not in address:
        import webbrowser

        webbrowser.open(address)


def _has_screen() -> bool:
    """Whether a browser would open in a window, and not in the terminal."""
    named = any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return named or sys.platform in ("darwin", "win32")


def _when_closed(notify: Callable[[], object]) -> None:
    """Call ``notify`` when the process that started this one has closed its end, or ended."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    notify()
