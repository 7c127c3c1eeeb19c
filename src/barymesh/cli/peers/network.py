"""``barymesh keygen`` and ``barymesh network``: keys, and the files of a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barymesh.cli.exit_codes import finish
from barymesh.cli.peers.common import Json, KitFolder, print_facts
from barymesh.errors import OptionError
from barymesh.support.text import HELP as SUPPORT_HELP

if TYPE_CHECKING:
    from barymesh.peers.members import NewNode
    from barymesh.peers.network_file import NetworkFile

NETWORK_FILE = Annotated[Path, typer.Argument(help="The public network.toml.")]
SPEC_HELP = (
    "NAME=ENDPOINT, such as clinic=tcp://clinic.example:5555; further, joined by commas, key=PUBLIC_KEY (if the node "
    "has made its own), weight=WEIGHT (of its measure; an ordinary node has 1), records=NUMBER (with --weights size) "
    "and status=PORT (of the status on its own machine)."
)
EDGES = Annotated[list[str] | None, typer.Option("--edge", help="Two nodes that exchange messages: NAME,NAME.")]
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
        from barymesh.peers.kit import NEXT_SECRET, SECRET
        from barymesh.transport.keys import KeyPair

        keys, path = KeyPair.create(), kit / (NEXT_SECRET if following else SECRET)
        keys.save(path)
        print_facts(
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
        str | None, typer.Option(help="The method of the nodes. Default: rounds; with --open, sinkhorn.")
    ] = None,
    open_sums: Annotated[
        bool, typer.Option("--open", help="Reports are not masked: a node's parent can read what it reports.")
    ] = False,
    min_members: Annotated[
        int, typer.Option(help="A node contributes to masked sums over so many members at least.")
    ] = 3,
    weights: Annotated[
        str | None,
        typer.Option(help="size: the weight of a node is its number of records, which it declares, and all can read."),
    ] = None,
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
        from barymesh.peers import members, network_file

        if edges and graph:
            raise OptionError("--edge and --graph are both given. Give --edge for each pair, or --graph.")
        new = [parse_node(text) for text in nodes]
        pairs = [_pair(text) for text in edges] if edges else _pairs(graph or "complete", [one.name for one in new])
        made = members.create(
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
            weights=weights or "declared",
        )
        kits = [str(folder / members.KITS / one.name) for one in new if one.public_key is None]
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
        from barymesh.peers import members

        new = parse_node(spec)
        made = members.add(network, new, to)
        kits = [] if new.public_key else [str(network.parent / members.KITS / new.name)]
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
        from barymesh.peers import members

        made = members.remove(network, name, [_pair(text) for text in edges or ()])
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
        from barymesh.peers import members

        _print_network(members.rotate_key(network, name, key), network, {}, [AFTER_CHANGE], as_json)
        return 0

    finish(work, as_json)


def declare(
    network: NETWORK_FILE,
    name: Annotated[str, typer.Argument(help="The node.")],
    weight: Annotated[float | None, typer.Option(help="The new weight of its measure.")] = None,
    records: Annotated[int | None, typer.Option(help="Its new number of records, where weights are by size.")] = None,
    as_json: Json = False,
) -> None:
    """Give a node another weight, while the network runs. The file gets another fingerprint, and all must accept it.

    Example:

      barymesh network declare trial/network.toml b --records 1250
    """

    def work() -> int:
        from barymesh.peers import members

        given = {key: value for key, value in (("weight", weight), ("records", records)) if value is not None}
        if len(given) != 1:
            raise OptionError("Give --weight or --records, and not both.")
        _print_network(members.declare(network, name, **given), network, {}, [AFTER_CHANGE], as_json)
        return 0

    finish(work, as_json)


AFTER_CHANGE = (
    "Send network.toml to all nodes. Each runs 'barymesh network accept network.toml KIT' and starts its node again, "
    "in any order and at any time; until then it works with those that have the same file."
)


def accept(network: NETWORK_FILE, kit: KitFolder, as_json: Json = False) -> None:
    """Accept a network, new or changed, with the key in the kit. Compare the fingerprint with the others first.

    Example:

      barymesh network accept network.toml our-kit
    """

    def work() -> int:
        from barymesh.peers.kit import accept as take
        from barymesh.peers.network_file import NETWORK, NetworkFile

        made = NetworkFile.read(network)
        name = take(made, kit).name
        _print_network(made, kit / NETWORK, {"name": name}, [f"Our node:    {name}"], as_json)
        return 0

    finish(work, as_json)


def parse_node(text: str) -> NewNode:
    """A node from NAME=ENDPOINT[,key=PUBLIC_KEY][,weight=WEIGHT][,records=NUMBER][,status=PORT]."""
    from barymesh.peers.members import NewNode

    first, *further = text.split(",")
    name, _, endpoint = first.partition("=")
    # a key may have "=" in it, but no comma
    options = dict(part.partition("=")[::2] for part in further)
    port, records = options.pop("status", None), options.pop("records", None)
    key, weight = options.pop("key", None), _number(options.pop("weight", "1"))
    whole = all(value is None or value.isdecimal() for value in (port, records))
    if not name or not endpoint or options or weight is None or not whole:
        raise OptionError(f"--node {text!r} is not valid. Give {SPEC_HELP}")
    counts = (None if value is None else int(value) for value in (port, records))
    status_port, declared = counts
    return NewNode(name, endpoint, key, status_port, weight, declared)


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


ONE_NEIGHBOUR = (
    "If that one lies, it can leave the node out of a sum, and learn from the difference: give every node two or more."
)


def _print_network(network: NetworkFile, path: Path, more: dict[str, Any], lines: list[str], as_json: bool) -> None:
    degrees = network.network().degrees
    alone = [node.name for node, degree in zip(network.nodes, degrees, strict=True) if network.masks and degree == 1]
    if alone:
        lines = [*lines, f"{', '.join(alone)}: one neighbour only. {ONE_NEIGHBOUR}"]
    facts = {"network": str(path), "fingerprint": network.fingerprint, **more}
    print_facts(facts, [f"Network:     {path}", f"Fingerprint: {network.fingerprint}", *lines], as_json)
