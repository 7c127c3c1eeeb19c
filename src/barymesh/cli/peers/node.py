"""``barymesh node`` and ``barymesh readmit``: run a node of an organisation."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barymesh.cli.dashboard import Open, with_dashboard
from barymesh.cli.exit_codes import BAD_INPUT, INTERRUPTED, OUT_OF_TIME, finish, writable_folder
from barymesh.cli.peers.common import FOLDER, Json, KitFolder, print_facts
from barymesh.errors import FileError, OptionError, PrivacyError
from barymesh.peers.logs import LogForm, log_phase, write_logs

if TYPE_CHECKING:
    from barymesh.engines.runtime import StopReason
    from barymesh.peers.node import Peer, PrivacyLevel

# seconds a node keeps running after it knows that the network has converged: its neighbours must learn it too
LINGER = 10.0
# a running node looks every second
READMIT_SECONDS = 10.0


def node(
    kit: KitFolder,
    data: Annotated[Path, typer.Option(help="The file with the node's measure: .csv, .parquet, .npy, .npz, an image.")],
    kind: Annotated[
        str | None, typer.Option("--as", help="What a plain array in .npy or .npz is: samples, image or histogram.")
    ] = None,
    invert: Annotated[bool, typer.Option("--invert", help="Dark pixels of an image carry the mass.")] = False,
    columns: Annotated[
        str | None, typer.Option(help="Columns of a table that are coordinates: names or numbers joined by commas.")
    ] = None,
    weight_column: Annotated[
        str | None, typer.Option(help="Column of a table that holds the mass of each sample. Default: equal.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Differential privacy for each record of the data: strong with 1, weak with 8.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Goes with --epsilon; far below one over the number of records, such as 1e-6.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Refuse to start if all uses of data in the folder's ledger cost more epsilon."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help=f"Folder for state and result. Default: {FOLDER} inside the kit.")
    ] = None,
    duration: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds in any case.")] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Keep running when the network has converged.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check all that a run needs, print what is wrong, and end.")
    ] = False,
    sync: Annotated[
        bool, typer.Option("--sync", help="Keep the state through a power cut too, at a cost in every activation.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Agree to what is computed from the data: do not ask.")
    ] = False,
    picture: Annotated[
        bool, typer.Option("--picture/--no-picture", help="Draw the barycenter when the network has converged.")
    ] = True,
    watched: Open = False,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log errors only.")] = False,
    log: Annotated[
        LogForm, typer.Option(help="Text for people, or one JSON object per line for programs.")
    ] = LogForm.TEXT,
) -> None:
    """Run a node of a network of organisations. The data stay here; messages go to the neighbours only.

    It shows what it will compute from the data and who gets what, and waits for a yes. Every use of the data is
    recorded in the folder: see 'barymesh audit'.

    The newest barycenter is always in result.npz of the folder. The node ends some seconds after it knows that the
    network has converged, or with Ctrl-C or SIGTERM. Started again, it continues where it was, however it ended.

    With --check the exit code is 3 if something is wrong here. That a neighbour is not up yet is not wrong.

    Examples:

      barymesh node our-kit --data samples.csv --check

      barymesh node our-kit --data samples.csv

      barymesh node our-kit --data samples.csv --epsilon 1 --delta 1e-6
    """

    from barymesh.io.tables import columns_from_text

    def work() -> int:
        write_logs(log, "ERROR" if quiet or check else "INFO", {"kit": kit.name})
        log_phase("starting", f"the node of {kit}")
        privacy = _privacy(epsilon, delta)
        chosen = {"columns": columns_from_text(columns), "weight_column": weight_column}
        reading = {"kind": kind, "invert": invert, **chosen}
        output = kit / FOLDER if folder is None else folder
        if check:
            return _check(kit, data, {"privacy": privacy, "budget": budget, "state": output, **reading}, as_json)
        writable_folder(output)
        options = {"budget": budget, "picture": picture, "sync": sync}
        linger = None if stay else LINGER
        return with_dashboard(
            watched,
            _watchable(kit) if watched else kit,
            lambda: _node(kit, data, reading, privacy, yes, options, output, duration, linger, as_json),
        )

    finish(work, as_json)


def readmit(
    kit: KitFolder,
    name: Annotated[str, typer.Argument(help="The neighbour that is cut off.")],
    folder: Annotated[
        Path | None, typer.Option(help=f"Folder of the node's state. Default: {FOLDER} inside the kit.")
    ] = None,
    as_json: Json = False,
) -> None:
    """End the pause of a neighbour that our running node has cut off, because it sent bad messages.

    Without this the pause ends by itself; it is longer each time. The exit code is 3 if the node does not run.

    Example:

      barymesh readmit our-kit clinic
    """

    def work() -> int:
        from barymesh.io.atomic import write_text
        from barymesh.peers.kit import Kit
        from barymesh.peers.node import READMIT

        Kit.open(kit).network.number(name)
        path = (kit / FOLDER if folder is None else folder) / READMIT
        deadline = time.monotonic() + READMIT_SECONDS
        if path.parent.is_dir():
            write_text(path, f"{name}\n")
            # the node may be another user
            path.chmod(0o644)
        while path.exists() and time.monotonic() <= deadline:
            time.sleep(0.05)
        if path.exists() or not path.parent.is_dir():
            path.unlink(missing_ok=True)
            raise FileError(
                f"No node runs in {path.parent}, or it cannot read {path.name} there: nothing was done. Start it, or "
                "name its --folder."
            )
        print_facts({"readmitted": name}, [f"{name} may connect again."], as_json)
        return 0

    finish(work, as_json)


def _check(kit: Path, data: Path, options: dict[str, Any], as_json: bool) -> int:
    import asyncio
    from dataclasses import asdict

    from barymesh.peers.check import Verdict, check

    found = asyncio.run(check(kit, data, **options))
    lines = [f"{one.verdict:7} {one.what}: {one.text}" for one in found]
    print_facts([asdict(one) for one in found], lines, as_json)
    return BAD_INPUT if any(one.verdict is Verdict.WRONG for one in found) else 0


def _privacy(epsilon: float | None, delta: float | None) -> PrivacyLevel | None:
    from barymesh.peers.node import PrivacyLevel

    if epsilon is None and delta is None:
        return None
    if epsilon is None or delta is None:
        raise OptionError("--epsilon and --delta go together, such as --epsilon 1 --delta 1e-6. Give both, or none.")
    return PrivacyLevel(epsilon, delta)


def _ask(lines: list[str]) -> str:
    """Show what is about to happen, and wait for a yes. Returns how it was given."""
    typer.echo("\n".join(lines), err=True)
    typer.echo("Go on? [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline().strip().lower()
    if answer not in ("y", "yes"):
        reply = f"The answer was {answer!r}" if answer else "There was no answer"
        raise PrivacyError(f"{reply}, so nothing was computed. Answer y, or agree beforehand with --yes.")
    return "asked"


def _watchable(kit: Path) -> Path:
    """The network file of a kit whose node has a status port."""
    from barymesh.peers.kit import Kit
    from barymesh.peers.network_file import NETWORK

    if Kit.open(kit).entry.status_port is None:
        raise OptionError(
            f"The node of {kit} has no status port, so it cannot be watched. Make the network with status=PORT for it, "
            "or leave out --open."
        )
    return kit / NETWORK


def _node(
    kit_folder: Path, data: Path, reading: dict[str, Any], privacy: PrivacyLevel | None, yes: bool,
    options: dict[str, Any], folder: Path, duration: float | None, linger: float | None, as_json: bool,
) -> int:  # fmt: skip
    """Run the node, and print its result. Returns the exit code."""
    import asyncio

    from barymesh.engines.runtime import StopReason
    from barymesh.io.files import read_measure
    from barymesh.peers.consent import intention
    from barymesh.peers.kit import Kit
    from barymesh.peers.node import open_peer, own_problem

    kit = Kit.open(kit_folder)
    log_phase("reading", str(data))
    measure = read_measure(data, **reading)
    lines = intention(kit, own_problem(kit, measure), str(data), privacy)
    if yes:
        # no consent is requested, but the log says what was agreed to
        for line in lines:
            log_phase("agreed", line)
    else:
        log_phase("waiting for consent", "answer the question, or give --yes")
    consent = "--yes" if yes else _ask(lines)
    log_phase("opening", f"the state in {folder}")

    async def run() -> tuple[Peer, StopReason, list[int]]:
        peer = await open_peer(kit, measure, folder, privacy, source=str(data.absolute()), consent=consent, **options)
        signals = _stop_on_signals(peer.stop)
        return peer, await peer.run(duration=duration, linger=linger), signals

    peer, ending, signals = asyncio.run(run())
    facts = peer.facts()
    error = "unknown" if facts["error"] is None else f"{facts['error']:.3g}"
    meaning = "out of balance, see the gap" if peer.kit.network.debias else "L1, estimated by the node"
    print_facts(
        {"ending": ending.name.lower(), "message": str(ending), **facts},
        [f"{kit.name} ended: {ending}.", f"Activations: {facts['activations']}",
         f"Error:       {error} ({meaning})", f"Result:      {facts['result']}",
         f"Audit log:   head {facts['audit_head']}"],
        as_json,
    )  # fmt: skip
    if signal.SIGINT in signals:
        return INTERRUPTED
    return OUT_OF_TIME if ending is StopReason.OUT_OF_TIME and not facts["stopped"] else 0


def _stop_on_signals(stop: Callable[[], None]) -> list[int]:
    """Let SIGTERM and Ctrl-C stop the node, with its state saved. A second signal ends it at once. Returns the list of
    signals received."""
    import asyncio

    loop = asyncio.get_running_loop()
    received: list[int] = []

    def on_signal(number: int) -> None:
        received.append(number)
        loop.remove_signal_handler(number)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return received
