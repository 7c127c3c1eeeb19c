"""``barymesh keygen``, ``network``, ``node``, ``status``, ``audit`` and ``readmit``: a network across organisations."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barymesh.cli.dashboard import Open, with_dashboard
from barymesh.cli.exit_codes import BAD_INPUT, INTERRUPTED, NOT_CONVERGED, OUT_OF_TIME, finish, writable_folder
from barymesh.errors import FileError, OptionError, PrivacyError
from barymesh.peers.logs import LogForm, log_phase, write_logs
from barymesh.support.text import HELP as SUPPORT_HELP

if TYPE_CHECKING:
    from barymesh.engines.runtime import StopReason
    from barymesh.peers.network_file import NetworkFile, NewNode
    from barymesh.peers.node import Peer, PrivacyLevel

# seconds a node keeps running after it knows that the network has converged: its neighbours must learn it too
LINGER = 10.0
FOLDER = "run"

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else.")]
NETWORK_FILE = Annotated[Path, typer.Argument(help="The public network.toml.")]
KIT = Annotated[Path, typer.Argument(help="The folder with the node's node.toml, network.toml and secret.key.")]
SPEC_HELP = (
    "NAME=ENDPOINT, such as clinic=tcp://clinic.example:5555; further, joined by commas, key=PUBLIC_KEY (if the node "
    "has made its own), weight=WEIGHT (of its measure; an ordinary node has 1) and status=PORT (of the status on its "
    "own machine)."
)
EDGES = Annotated[list[str] | None, typer.Option("--edge", help="Two nodes that exchange messages: NAME,NAME.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    epilog = app.info.epilog
    network = typer.Typer(help=NETWORK_HELP, no_args_is_help=True, epilog=epilog)
    parts: tuple[Callable[..., None], ...] = (create, add, remove, rotate_key, accept)
    commands: tuple[Callable[..., None], ...] = (keygen, node, status, audit, readmit)
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
    kit: Annotated[Path, typer.Argument(help="The folder for the new secret.key.")],
    following: Annotated[
        bool, typer.Option("--next", help="Make the key that is to follow the present one, for network rotate-key.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the key of a node. The secret key stays in the folder; send the public key to the maker of the network.

    Examples:

      barymesh keygen our-kit

      barymesh keygen our-kit --next
    """

    def work() -> int:
        from barymesh.peers.network_file import NEXT_SECRET, SECRET
        from barymesh.transport.keys import KeyPair

        keys, path = KeyPair.create(), kit / (NEXT_SECRET if following else SECRET)
        keys.save(path)
        _print(
            {"public_key": keys.public, "fingerprint": keys.fingerprint, "secret": str(path)},
            [f"Public key:  {keys.public}", f"Fingerprint: {keys.fingerprint}", f"Keep {path} secret."],
            as_json,
        )
        return 0

    finish(work, as_json)


OPEN_METHOD, MASKED_METHOD = "sinkhorn", "rounds"
MASKED_SUMS = "The nodes mask what they report: nobody can read anything but sums over all of them."
OPEN_SUMS = (
    "Reports are not masked: the parent of a node in the tree can read what it reports, and may reconstruct much of a "
    "small data set."
)


def create(
    folder: Annotated[Path, typer.Argument(help="The folder for network.toml and the kits.")],
    nodes: Annotated[list[str], typer.Option("--node", help=SPEC_HELP)],
    support: Annotated[str, typer.Option(help=f"The support of the barycenter, a grid: {SUPPORT_HELP}.")],
    reg: Annotated[float, typer.Option(help="Entropic regularisation, in units of the cost. Smaller is sharper.")],
    edges: EDGES = None,
    graph: Annotated[
        str | None, typer.Option(help="The graph of the links by name, such as cycle. Default: complete.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="An asynchronous method. Default: rounds; with --open, sinkhorn.")
    ] = None,
    open_sums: Annotated[
        bool, typer.Option("--open", help="Reports are not masked: a node's parent can read what it reports.")
    ] = False,
    min_members: Annotated[
        int, typer.Option(help="A node contributes to masked sums over so many members at least.")
    ] = 3,
    debias: Annotated[bool, typer.Option(help="Find the debiased barycenter, without the blur of reg.")] = False,
    tol: Annotated[float, typer.Option(help="Stop once the nodes agree to this tolerance.")] = 1e-6,
    interval: Annotated[float, typer.Option(help="Seconds between activations of a node.")] = 0.05,
    run: Annotated[str | None, typer.Option(help="The id of the run. Default: the date and a random number.")] = None,
    as_json: Json = False,
) -> None:
    """Make a network: the public network.toml for all, and in kits/NAME what each node needs to start.

    Send every organisation its own kit, over a channel that nobody else can read. Organisations that have made their
    own key (barymesh keygen) get network.toml only, and run 'barymesh network accept'.

    Nodes mask what they report, so that nobody can read anything but sums over all of them. That takes three nodes or
    more, and the method rounds. With --open it is not so.

    Example:

      barymesh network create trial --node a=tcp://a.example:5555 --node b=tcp://b.example:5555
      --node c=tcp://c.example:5555 --support 100:-5:5 --reg 0.1
    """

    def work() -> int:
        from barymesh.peers import network_file

        if edges and graph:
            raise OptionError("--edge and --graph are both given. Give --edge for each pair, or --graph.")
        new = [parse_node(text) for text in nodes]
        pairs = [_pair(text) for text in edges] if edges else _pairs(graph or "complete", [one.name for one in new])
        made = network_file.create(
            folder,
            new,
            pairs,
            support=support,
            reg=reg,
            run=run,
            method=method or (OPEN_METHOD if open_sums else MASKED_METHOD),
            debias=debias,
            tol=tol,
            interval=interval,
            masks=not open_sums,
            min_members=min_members,
        )
        kits = [str(folder / network_file.KITS / one.name) for one in new if one.public_key is None]
        lines = [*(f"Secret kit:  {kit}" for kit in kits), "Send each kit to its node only; network.toml is public."]
        lines.append(OPEN_SUMS if open_sums else MASKED_SUMS)
        _print_network(made, folder / network_file.NETWORK, {"kits": kits}, lines, as_json)
        return 0

    finish(work, as_json)


def add(
    network: NETWORK_FILE,
    spec: Annotated[str, typer.Option("--node", help=SPEC_HELP)],
    to: Annotated[list[str], typer.Option("--to", help="A neighbour of the new node.")],
    as_json: Json = False,
) -> None:
    """Add a node, while the network runs. Its file gets another fingerprint, and all must accept it in their time.

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
    """Remove a node, while the network runs. Its file gets another fingerprint, and all must accept it in their time.

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


def rotate_key(
    network: NETWORK_FILE,
    name: Annotated[str, typer.Argument(help="The node that has a new key.")],
    key: Annotated[str, typer.Option(help="Its new public key, from barymesh keygen KIT --next.")],
    as_json: Json = False,
) -> None:
    """Give a node another key, while the network runs. The file gets another fingerprint, and all must accept it.

    The node makes the key with 'barymesh keygen KIT --next'. It uses the old one until it accepts the file, and those
    that have accepted it do not admit the old one any more.

    Example:

      barymesh network rotate-key trial/network.toml b --key PUBLIC_KEY
    """

    def work() -> int:
        from barymesh.peers import network_file

        _print_network(network_file.rotate_key(network, name, key), network, {}, [AFTER_CHANGE], as_json)
        return 0

    finish(work, as_json)


AFTER_CHANGE = (
    "Send network.toml to all nodes. Each runs 'barymesh network accept network.toml KIT' and starts its node again, "
    "in any order and at any time; until then it works with those that have the same file."
)


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


def status(
    what: Annotated[Path, typer.Argument(help="The public network.toml, a kit, or the folder of a node's state.")],
    as_json: Json = False,
) -> None:
    """Show what the nodes of a network do that run on this machine, or how they ended.

    The exit code is 0 if all is well, and 4 if a node has died, is stuck, or is cut off, or if none has run here.

    Example:

      barymesh status trial/network.toml
    """

    def work() -> int:
        statuses = _statuses(what)
        if as_json:
            typer.echo(json.dumps(statuses, indent=2))
        else:
            _table(statuses)
        here = any(one["here"] for one in statuses)
        return 0 if here and not any(one["trouble"] for one in statuses) else NOT_CONVERGED

    finish(work, as_json)


def audit(
    folder: Annotated[Path, typer.Argument(help="The folder of the node's state, or its audit.jsonl.")],
    head: Annotated[str | None, typer.Option(help="A head that you noted earlier: the log must still have it.")] = None,
    as_json: Json = False,
) -> None:
    """Show and verify the audit log of a node: every use of its data.

    A line that was changed, removed or inserted is found. Note the head, the hash of the last line, somewhere else:
    with --head it is also found if the end of the log was removed, or all of it was made anew. The exit code is 3 then.

    Example:

      barymesh audit state-a
    """

    def work() -> int:
        from barymesh.peers.audit import AUDIT, read

        path = folder / AUDIT if folder.is_dir() else folder
        if not path.exists():
            raise FileError(f"There is no audit log {path}. Name the folder of a node that has run.")
        trail = read(path)
        lines = [_audit_line(entry) for entry in trail.entries]
        if trail.torn:
            lines.append("The last line is incomplete: the power failed while it was written, or somebody cut it off.")
        facts = {"entries": trail.entries, "head": trail.head, "problem": trail.problem, "torn": trail.torn}
        _print(facts, [*lines, f"{len(trail.entries)} entries. Head: {trail.head}"], as_json)
        if trail.problem:
            raise FileError(f"{path}: {trail.problem}. The entries above are as they were written.")
        if head is not None and not any(entry["hash"].startswith(head.lower()) for entry in trail.entries):
            raise FileError(f"{path} has no line with the hash {head}: its end was removed, or it was made anew.")
        return 0

    finish(work, as_json)


def readmit(
    kit: KIT,
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
        from barymesh.peers.network_file import Kit
        from barymesh.peers.node import READMIT

        Kit.open(kit).network.number(name)
        path = (kit / FOLDER if folder is None else folder) / READMIT
        write_text(path, f"{name}\n")
        deadline = time.monotonic() + READMIT_SECONDS
        while path.exists():
            if time.monotonic() > deadline:
                path.unlink(missing_ok=True)
                raise FileError(f"No node runs in {path.parent}: nothing was done. Start it, or name its --folder.")
            time.sleep(0.05)
        _print({"readmitted": name}, [f"{name} may connect again."], as_json)
        return 0

    finish(work, as_json)


# a running node looks every second
READMIT_SECONDS = 10.0


def _audit_line(entry: dict[str, Any]) -> str:
    """An entry for people."""
    hidden = ("number", "time", "event", "digest", "previous", "hash")
    facts = [f"{name} {'none' if value is None else value}" for name, value in entry.items() if name not in hidden]
    return f"{entry.get('number'):>4} {entry.get('time')} {entry.get('event'):5} {', '.join(facts)}"


NO_PORT = "has no status port"


def parse_node(text: str) -> NewNode:
    """A node from NAME=ENDPOINT[,key=PUBLIC_KEY][,weight=WEIGHT][,status=PORT]."""
    from barymesh.peers.network_file import NewNode

    first, *further = text.split(",")
    name, _, endpoint = first.partition("=")
    # a key may have "=" in it, but no comma
    options = dict(part.partition("=")[::2] for part in further)
    port = options.pop("status", None)
    key, weight = options.pop("key", None), _number(options.pop("weight", "1"))
    if not name or not endpoint or options or weight is None or (port is not None and not port.isdecimal()):
        raise OptionError(f"--node {text!r} is not valid. Give {SPEC_HELP}")
    return NewNode(name, endpoint, key, None if port is None else int(port), weight)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


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


def _check(kit: Path, data: Path, options: dict[str, Any], as_json: bool) -> int:
    import asyncio
    from dataclasses import asdict

    from barymesh.peers.check import Verdict, check

    found = asyncio.run(check(kit, data, **options))
    lines = [f"{one.verdict:7} {one.what}: {one.text}" for one in found]
    _print([asdict(one) for one in found], lines, as_json)
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
    from barymesh.peers.network_file import NETWORK, Kit

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
    from barymesh.peers.network_file import Kit
    from barymesh.peers.node import local_problem, open_peer

    kit = Kit.open(kit_folder)
    log_phase("reading", str(data))
    measure = read_measure(data, **reading)
    lines = intention(kit, local_problem(kit, measure), str(data), privacy)
    if not yes:
        log_phase("waiting for consent", "answer the question, or give --yes")
    consent = "--yes" if yes else _ask(lines)
    log_phase("opening", f"the state in {folder}", intention=lines)

    async def run() -> tuple[Peer, StopReason, list[int]]:
        peer = await open_peer(kit, measure, folder, privacy, source=str(data.absolute()), consent=consent, **options)
        signals = _stop_on_signals(peer.stop)
        return peer, await peer.run(duration=duration, linger=linger), signals

    peer, ending, signals = asyncio.run(run())
    facts = peer.facts()
    error = "unknown" if facts["error"] is None else f"{facts['error']:.3g}"
    _print(
        {"ending": ending.name.lower(), "message": str(ending), **facts},
        [f"{kit.name} ended: {ending}.", f"Activations: {facts['activations']}",
         f"Error:       {error} (L1, estimated by the node)", f"Result:      {facts['result']}",
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


def _statuses(what: Path) -> list[dict[str, Any]]:
    """The status of each node: its ``state`` for people, whether it has run ``here``, whether there is ``trouble``."""
    from barymesh.peers import last_run
    from barymesh.peers.network_file import NETWORK, NetworkFile

    if what.is_dir() and not (what / NETWORK).exists():
        note = last_run.of_folder(what)
        if note is None:
            raise FileError(f"{what} is neither a kit nor the folder of a node that has run. Name a network.toml.")
        return [_status(note["name"], note["fingerprint"], note["status_port"], note)]
    path = what / NETWORK if what.is_dir() else what
    network = NetworkFile.read(path)
    notes = {node.name: last_run.find(path, node.name, network.fingerprint) for node in network.nodes}
    found = [_status(node.name, network.fingerprint, node.status_port, notes[node.name]) for node in network.nodes]
    for one in found:
        if one["state"] == ELSEWHERE:
            links = [(other["name"], other.get("links", {}).get(one["name"])) for other in found]
            one["state"] += "".join(f"; seen by {name}: {link['state']}" for name, link in links if link)
    return found


ELSEWHERE = "not on this machine"


def _status(name: str, fingerprint: str, port: int | None, note: dict[str, Any] | None) -> dict[str, Any]:
    from barymesh.peers import last_run
    from barymesh.peers.states import TROUBLE, node_state, state_text
    from barymesh.peers.status import query

    facts = None if port is None else query(port)
    other = facts is not None and (facts.get("name"), facts.get("fingerprint")) != (name, fingerprint)
    if facts is not None and not other:
        return {
            **facts, "state": state_text(facts), "here": True, "trouble": node_state(facts) in TROUBLE
        }  # fmt: skip
    known = {"name": name, "here": note is not None, "trouble": False}
    if note is not None and (port is not None or note["ending"] is not None):
        state, text = last_run.ending(note)
        return {**known, "state": text, "trouble": state in TROUBLE}
    if other:
        return {**known, "state": "another program answers at its port", "trouble": True}
    return {**known, "state": NO_PORT if port is None else ELSEWHERE}


def _table(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "node",
        "state",
        "activations",
        "error",
        "neighbours",
        "refused",
        "uptime",
        "epsilon",
        "version",
        "wire",
        box=None,
    )
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
            f"{one['uptime']:.0f} s", _epsilon(one["privacy"]), one["program"], str(one["wire_version"]),
        )  # fmt: skip
    # a state is a sentence: where there is no terminal, there is room for it
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _epsilon(spent: dict[str, Any]) -> str:
    # JSON has no infinity
    epsilon = "no privacy" if spent["epsilon"] is None else f"{spent['epsilon']:.3g}"
    return epsilon + (f" ({spent['uses']} uses)" if spent["uses"] > 1 else "")


def _print(facts: Any, lines: list[str], as_json: bool) -> None:
    if as_json:
        from barymesh.peers.status import jsonable

        typer.echo(json.dumps(jsonable(facts), indent=2))
    else:
        typer.echo("\n".join(lines))
