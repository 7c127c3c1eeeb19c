"""``barymesh keygen``, ``network``, ``node`` and ``status``: a network across organisations, from the command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barymesh.cli.dashboard import Open, with_dashboard
from barymesh.cli.exit_codes import BAD_INPUT, INTERRUPTED, NOT_CONVERGED, finish, writable_folder
from barymesh.errors import OptionError
from barymesh.peers.logs import LogForm, write_logs
from barymesh.support.text import HELP as SUPPORT_HELP

if TYPE_CHECKING:
    from barymesh.engines.runtime import StopReason
    from barymesh.peers.network_file import NetworkFile, NewNode
    from barymesh.peers.node import Peer, PrivacyBudget

# seconds a node keeps running after it knows that the network has converged: its neighbours must learn it too
LINGER = 10.0
FOLDER = "run"

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else.")]
NETWORK_FILE = Annotated[Path, typer.Argument(help="The public network.toml.")]
KIT = Annotated[Path, typer.Argument(help="The folder with the node's node.toml, network.toml and secret.key.")]
SPEC_HELP = (
    "NAME=ENDPOINT, such as clinic=tcp://clinic.example:5555; further, joined by commas, key=PUBLIC_KEY (if the node "
    "has made its own) and status=PORT (of the status on its own machine)."
)
EDGES = Annotated[list[str] | None, typer.Option("--edge", help="Two nodes that exchange messages: NAME,NAME.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    epilog = app.info.epilog
    network = typer.Typer(help=NETWORK_HELP, no_args_is_help=True, epilog=epilog)
    parts: tuple[Callable[..., None], ...] = (create, add, remove, accept)
    commands: tuple[Callable[..., None], ...] = (keygen, node, status)
    for part in parts:
        network.command(epilog=epilog)(part)
    app.add_typer(network, name="network")
    for command in commands:
        app.command(epilog=epilog)(command)


NETWORK_HELP = """Make and change networks of organisations: the nodes, and the links between them.

Example, three organisations of which the last has made its own key:

  barymesh network create trial --node a=tcp://a.example:5555 --node b=tcp://b.example:5555 --node
  "c=tcp://c.example:5555,key=PUBLIC_KEY" --support 100:-5:5 --reg 0.1
"""


def keygen(
    kit: Annotated[Path, typer.Argument(help="The folder for the new secret.key.")], as_json: Json = False
) -> None:
    """Make the key of a node. The secret key stays in the folder; send the public key to the maker of the network.

    Example:

      barymesh keygen our-kit
    """

    def work() -> int:
        from barymesh.peers.network_file import SECRET
        from barymesh.transport.keys import KeyPair

        keys = KeyPair.create()
        keys.save(kit / SECRET)
        _print(
            {"public_key": keys.public, "fingerprint": keys.fingerprint, "secret": str(kit / SECRET)},
            [f"Public key:  {keys.public}", f"Fingerprint: {keys.fingerprint}", f"Keep {kit / SECRET} secret."],
            as_json,
        )
        return 0

    finish(work, as_json)


def create(
    folder: Annotated[Path, typer.Argument(help="The folder for network.toml and the kits.")],
    nodes: Annotated[list[str], typer.Option("--node", help=SPEC_HELP)],
    support: Annotated[str, typer.Option(help=f"The support of the barycenter, a grid: {SUPPORT_HELP}.")],
    reg: Annotated[float, typer.Option(help="Entropic regularisation, in units of the cost. Smaller is sharper.")],
    edges: EDGES = None,
    graph: Annotated[
        str | None, typer.Option(help="The graph of the links by name, such as cycle. Default: complete.")
    ] = None,
    method: Annotated[str, typer.Option(help="An asynchronous method.")] = "sinkhorn",
    tol: Annotated[float, typer.Option(help="Stop once the nodes agree to this tolerance.")] = 1e-6,
    interval: Annotated[float, typer.Option(help="Seconds between activations of a node.")] = 0.05,
    run: Annotated[str | None, typer.Option(help="The id of the run. Default: the date and a random number.")] = None,
    as_json: Json = False,
) -> None:
    """Make a network: the public network.toml for all, and in kits/NAME what each node needs to start.

    Send every organisation its own kit, over a channel that nobody else can read. Organisations that have made their
    own key (barymesh keygen) get network.toml only, and run 'barymesh network accept'.

    Example:

      barymesh network create trial --node a=tcp://a.example:5555 --node b=tcp://b.example:5555 --support 100:-5:5
      --reg 0.1
    """

    def work() -> int:
        from barymesh.peers import network_file

        if edges and graph:
            raise OptionError("--edge and --graph are both given. Give --edge for each pair, or --graph.")
        new = [parse_node(text) for text in nodes]
        pairs = [_pair(text) for text in edges] if edges else _pairs(graph or "complete", [one.name for one in new])
        made = network_file.create(
            folder, new, pairs, support=support, reg=reg, run=run, method=method, tol=tol, interval=interval
        )
        kits = [str(folder / network_file.KITS / one.name) for one in new if one.public_key is None]
        lines = [*(f"Secret kit:  {kit}" for kit in kits), "Send each kit to its node only; network.toml is public."]
        _print_network(made, folder / network_file.NETWORK, {"kits": kits}, lines, as_json)
        return 0

    finish(work, as_json)


def add(
    network: NETWORK_FILE,
    spec: Annotated[str, typer.Option("--node", help=SPEC_HELP)],
    to: Annotated[list[str], typer.Option("--to", help="A neighbour of the new node.")],
    as_json: Json = False,
) -> None:
    """Add a node. The network gets another fingerprint: all must accept the new file, and start again.

    Example:

      barymesh network add trial/network.toml --node d=tcp://d.example:5555 --to a --to b
    """

    def work() -> int:
        from barymesh.peers import network_file

        new = parse_node(spec)
        made = network_file.add(network, new, to)
        kits = [] if new.public_key else [str(network.parent / network_file.KITS / new.name)]
        _print_network(made, network, {"kits": kits}, [*(f"Secret kit:  {kit}" for kit in kits), AFTER_CHANGE], as_json)
        return 0

    finish(work, as_json)


def remove(
    network: NETWORK_FILE,
    name: Annotated[str, typer.Argument(help="The node to remove.")],
    edges: EDGES = None,
    as_json: Json = False,
) -> None:
    """Remove a node. The network gets another fingerprint: all must accept the new file, and start again.

    The other nodes must still be connected; --edge adds the links that are missing.

    Example:

      barymesh network remove trial/network.toml b --edge a,c
    """

    def work() -> int:
        from barymesh.peers import network_file

        made = network_file.remove(network, name, [_pair(text) for text in edges or ()])
        _print_network(made, network, {}, [AFTER_CHANGE], as_json)
        return 0

    finish(work, as_json)


AFTER_CHANGE = "Send network.toml to all nodes. Each runs 'barymesh network accept network.toml KIT', and starts again."


def accept(network: NETWORK_FILE, kit: KIT, as_json: Json = False) -> None:
    """Accept a network, new or changed, with the key in the kit. Compare the fingerprint with the others first.

    Example:

      barymesh network accept network.toml our-kit
    """

    def work() -> int:
        from barymesh.peers import network_file

        made = network_file.NetworkFile.read(network)
        name = network_file.accept(made, kit).name
        _print_network(made, kit / network_file.NETWORK, {"name": name}, [f"Our node:    {name}"], as_json)
        return 0

    finish(work, as_json)


def node(
    kit: KIT,
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
    weight: Annotated[float, typer.Option(help="Weight of the measure; an ordinary node has 1.")] = 1.0,
    epsilon: Annotated[
        float | None, typer.Option(help="Differential privacy for each record of the data: strong with 1, weak with 8.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Goes with --epsilon; far below one over the number of records, such as 1e-6.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help=f"Folder for state and result. Default: {FOLDER} inside the kit.")
    ] = None,
    duration: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds in any case.")] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Keep running when the network has converged.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check keys, endpoints, data and clock, print what is wrong, and end.")
    ] = False,
    watched: Open = False,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log errors only.")] = False,
    log: Annotated[
        LogForm, typer.Option(help="Text for people, or one JSON object per line for programs.")
    ] = LogForm.TEXT,
) -> None:
    """Run a node of a network of organisations. The data stay here; messages go to the neighbours only.

    The newest barycenter is always in result.npz of the folder. The node ends some seconds after it knows that the
    network has converged, or with Ctrl-C or SIGTERM. Started again, it continues where it was, however it ended.

    Examples:

      barymesh node our-kit --data samples.csv --check

      barymesh node our-kit --data samples.csv

      barymesh node our-kit --data samples.csv --epsilon 1 --delta 1e-6
    """

    from barymesh.io.tables import columns_from_text

    def work() -> int:
        write_logs(log, "ERROR" if quiet else "INFO", {"kit": kit.name})
        budget = _budget(epsilon, delta)
        chosen = {"columns": columns_from_text(columns), "weight_column": weight_column}
        reading = {"kind": kind, "invert": invert, **chosen}
        if check:
            return _check(kit, data, weight, {"budget": budget, **reading}, as_json)
        output = writable_folder(kit / FOLDER if folder is None else folder)
        linger = None if stay else LINGER
        return with_dashboard(
            watched,
            _watchable(kit) if watched else kit,
            lambda: _node(kit, data, reading, weight, budget, output, duration, linger, as_json),
        )

    finish(work, as_json)


def status(network: NETWORK_FILE, as_json: Json = False) -> None:
    """Show the status of the nodes of a network that run on this machine.

    The exit code is 4 if one with a status port does not answer.

    Example:

      barymesh status trial/network.toml
    """

    def work() -> int:
        from barymesh.peers.network_file import NetworkFile

        statuses = _statuses(NetworkFile.read(network))
        if as_json:
            typer.echo(json.dumps(statuses, indent=2))
        else:
            _table(statuses)
        healthy = ("starting", "at work", "converged", NO_PORT)
        return 0 if all(one["state"] in healthy for one in statuses) else NOT_CONVERGED

    finish(work, as_json)


NO_PORT = "has no status port"


def parse_node(text: str) -> NewNode:
    """A node from NAME=ENDPOINT[,key=PUBLIC_KEY][,status=PORT]."""
    from barymesh.peers.network_file import NewNode

    first, *further = text.split(",")
    name, _, endpoint = first.partition("=")
    # a key may have "=" in it, but no comma
    options = dict(part.partition("=")[::2] for part in further)
    port = options.pop("status", None)
    key = options.pop("key", None)
    if not name or not endpoint or options or (port is not None and not port.isdecimal()):
        raise OptionError(f"--node {text!r} is not valid. Give {SPEC_HELP}")
    return NewNode(name, endpoint, key, None if port is None else int(port))


def _pair(text: str) -> list[str]:
    names = text.split(",")
    if len(names) != 2:
        raise OptionError(f"--edge {text!r} is not a pair of nodes; give NAME,NAME.")
    return names


def _pairs(graph: str, names: list[str]) -> list[list[str]]:
    from barymesh.network import as_network

    return [[names[i], names[j]] for i, j in as_network(graph, len(names)).edges]


def _print_network(network: NetworkFile, path: Path, more: dict[str, Any], lines: list[str], as_json: bool) -> None:
    facts = {"network": str(path), "fingerprint": network.fingerprint, **more}
    _print(facts, [f"Network:     {path}", f"Fingerprint: {network.fingerprint}", *lines], as_json)


def _check(kit: Path, data: Path, weight: float, reading: dict[str, Any], as_json: bool) -> int:
    import asyncio
    from dataclasses import asdict

    from barymesh.peers.node import check

    found = asyncio.run(check(kit, data, weight, **reading))
    lines = [f"{'ok    ' if one.ok else 'NOT OK'}  {one.what}: {one.text}" for one in found]
    _print([asdict(one) for one in found], lines, as_json)
    return 0 if all(one.ok for one in found) else BAD_INPUT


def _budget(epsilon: float | None, delta: float | None) -> PrivacyBudget | None:
    from barymesh.peers.node import PrivacyBudget

    if epsilon is None and delta is None:
        return None
    if epsilon is None or delta is None:
        raise OptionError("--epsilon and --delta go together, such as --epsilon 1 --delta 1e-6. Give both, or none.")
    return PrivacyBudget(epsilon, delta)


def _watchable(kit: Path) -> Path:
    """The network file of a kit whose node has a status port."""
    from barymesh.peers.network_file import NETWORK, Kit

    if Kit.open(kit).entry.status_port is None:
        raise OptionError(
            f"The node of {kit} has no status port, so it cannot be watched. Make the network with status=PORT for it, "
            "or leave out --open."
        )
    return kit / NETWORK


def _node(
    kit_folder: Path, data: Path, reading: dict[str, Any], weight: float, budget: PrivacyBudget | None,
    folder: Path, duration: float | None, linger: float | None, as_json: bool,
) -> int:  # fmt: skip
    """Run the node, and print its result. Returns the exit code."""
    import asyncio

    from barymesh.io.files import read_measure
    from barymesh.peers.network_file import Kit
    from barymesh.peers.node import open_peer

    kit = Kit.open(kit_folder)
    measure = read_measure(data, **reading)

    async def run() -> tuple[Peer, StopReason, list[int]]:
        peer = await open_peer(kit, measure, weight, folder, budget)
        signals = _stop_on_signals(peer.stop)
        return peer, await peer.run(duration=duration, linger=linger), signals

    peer, ending, signals = asyncio.run(run())
    facts = peer.facts()
    error = "unknown" if facts["error"] is None else f"{facts['error']:.3g}"
    _print(
        {"ending": ending.name.lower(), "message": str(ending), **facts},
        [f"{kit.name} ended: {ending}.", f"Activations: {facts['activations']}",
         f"Error:       {error} (L1, estimated by the node)", f"Result:      {facts['result']}"],
        as_json,
    )  # fmt: skip
    return INTERRUPTED if signal.SIGINT in signals else 0


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


def _statuses(network: NetworkFile) -> list[dict[str, Any]]:
    """The status of each node, with a ``state`` for people."""
    from barymesh.peers.status import query
    from barymesh.peers.status import state as state_of

    found = []
    for node in network.nodes:
        facts = None if node.status_port is None else query(node.status_port)
        if node.status_port is None:
            state = NO_PORT
        elif facts is None:
            state = "DEAD or elsewhere"
        elif (facts.get("name"), facts.get("fingerprint")) != (node.name, network.fingerprint):
            state, facts = "ANOTHER PROGRAM answers", None
        else:
            state = state_of(facts)
        found.append({**(facts or {}), "name": node.name, "state": state})
    return found


def _table(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("node", "state", "activations", "error", "neighbours", "refused", "uptime", "epsilon", box=None)
    for one in found:
        if "links" not in one:
            table.add_row(one["name"], one["state"])
            continue
        links = one["links"].values()
        connected = sum(link["state"] == "connected" for link in links)
        refused = sum(sum(link["refused_messages"].values()) for link in links)
        error = "" if one["error"] is None else f"{one['error']:.2g}"
        table.add_row(
            one["name"], one["state"], str(one["activations"]), error, f"{connected} of {len(links)}", str(refused),
            f"{one['uptime']:.0f} s", _epsilon(one.get("privacy")),
        )  # fmt: skip
    Console().print(table)


def _epsilon(spent: dict[str, Any] | None) -> str:
    if spent is None:
        return ""
    return f"{spent['epsilon']:.3g}" + (f" ({spent['releases']} releases)" if spent["releases"] > 1 else "")


def _print(facts: Any, lines: list[str], as_json: bool) -> None:
    if as_json:
        from barymesh.peers.status import jsonable

        typer.echo(json.dumps(jsonable(facts), indent=2))
    else:
        typer.echo("\n".join(lines))
