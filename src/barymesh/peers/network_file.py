"""A network of organisations as files: the public ``network.toml`` that all share, and a start-up kit for each node.

Whoever has the same fingerprint has the same file: same problem, same graph, same keys. Peers with different files
never use each other's messages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from barymesh.cli.config import given_value
from barymesh.decentralized import NETWORK_METHODS, SYNCHRONOUS
from barymesh.errors import ConfigError, FileError, NetworkError, OptionError, SupportError
from barymesh.io.atomic import write_text
from barymesh.io.toml import read_toml
from barymesh.network.topology import Network
from barymesh.support.points import Support
from barymesh.support.text import parse_support
from barymesh.transport import endpoints
from barymesh.transport.keys import CurveKeyError, KeyPair, raw_public

FORMAT = 1
NETWORK, NODE, SECRET, KITS = "network.toml", "node.toml", "secret.key", "kits"
METHODS = tuple(name for name in NETWORK_METHODS if name not in SYNCHRONOUS)

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
# a name of a folder everywhere, and nothing that a shell would read otherwise
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_EVERYWHERE = re.compile(r"tcp://(\*|0\.0\.0\.0|\[[0:]+\]):\d+")

_HEAD = """\
# A network of barymesh. This file is public: it holds no secret. Every node needs exactly this file; any change of it
# changes its fingerprint. Compare the fingerprint with the others before the first run, for instance by telephone.
"""


class NodeEntry(BaseModel):
    """One node of the network, as all others know it."""

    model_config = _STRICT

    name: str = Field(description="what people call the node")
    endpoint: str = Field(description="where its neighbours reach it, tcp://host:port")
    public_key: str = Field(description="the public half of its key, from `barymesh keygen`")
    status_port: int | None = Field(
        default=None, ge=1, lt=2**16, description="the port of its status, on its own machine"
    )

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise NetworkError(
                f"the name {value!r} must be 1 to 64 letters, digits, '_', '.' or '-', and begin with a letter or digit"
            )
        return value

    @field_validator("endpoint")
    @classmethod
    def _reachable(cls, value: str) -> str:
        endpoints.checked(value)
        if not (value.isascii() and value.isprintable()):
            raise OptionError(f"the endpoint {value!r} has characters that are not printable ASCII")
        if _EVERYWHERE.fullmatch(value) or (value.startswith("tcp://") and int(value.rpartition(":")[2]) == 0):
            raise OptionError(
                f"the endpoint {value!r} must tell the neighbours both a machine and a port to connect to; "
                "where the node listens can be said by the key listen of its node.toml"
            )
        return value

    @field_validator("public_key")
    @classmethod
    def _real_key(cls, value: str) -> str:
        raw_public(value)
        return value


class NetworkFile(BaseModel):
    """What all nodes must agree on. The number of a node is its place in ``nodes``."""

    model_config = _STRICT

    format: int = Field(default=FORMAT, description="the version of the file's format")
    run: str = Field(description="what tells this run from others")
    method: str = Field(default="sinkhorn", description="the algorithm of the nodes")
    support: str = Field(description="where the barycenter lives: a grid such as 100:-5:5")
    reg: float = Field(gt=0, allow_inf_nan=False, description="the entropic regularisation")
    tol: float = Field(default=1e-6, ge=0, allow_inf_nan=False, description="when the nodes may stop")
    interval: float = Field(
        default=0.05, ge=0, le=3600, allow_inf_nan=False, description="seconds between activations of a node"
    )
    began: AwareDatetime = Field(description="when the run begins, with its time zone")
    edges: list[list[str]] = Field(description="the pairs of nodes that talk to each other, by name")
    nodes: list[NodeEntry] = Field(min_length=2, description="the nodes")

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: int) -> int:
        if value != FORMAT:
            raise OptionError(f"it is {value}, and this version of barymesh knows {FORMAT}. Install a fitting version")
        return value

    @field_validator("run")
    @classmethod
    def _plain_run(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise OptionError(
                f"the run id {value!r} must be 1 to 64 letters, digits, '_', '.' or '-', and begin with a letter or "
                "digit"
            )
        return value

    @field_validator("method")
    @classmethod
    def _asynchronous(cls, value: str) -> str:
        if value in SYNCHRONOUS:
            raise OptionError(f"{value} is synchronous: its nodes wait for one another. Choose {', '.join(METHODS)}")
        if value not in METHODS:
            raise OptionError(f"there is no method {value!r}; choose {', '.join(METHODS)}")
        return value

    @field_validator("support")
    @classmethod
    def _same_for_all(cls, value: str) -> str:
        if not isinstance(parse_support(value, check_only=True), Support):
            raise SupportError(
                f"the support {value!r} may differ from node to node. Give a grid: count:lower:upper for each axis, "
                "joined by commas"
            )
        return value

    @field_validator("began")
    @classmethod
    def _in_seconds(cls, value: datetime) -> datetime:
        # the ends of the calendar fit into no other time zone
        if not 1970 <= value.year < 9000:
            raise OptionError(f"the year {value.year} is none of 1970 to 8999")
        return value.astimezone(UTC).replace(microsecond=0)

    @model_validator(mode="after")
    def _nodes_of_their_own(self) -> NetworkFile:
        for what, key in (("name", "name"), ("public key", "public_key"), ("endpoint", "endpoint")):
            first: dict[str, int] = {}
            for place, node in enumerate(self.nodes):
                value = getattr(node, key)
                if first.setdefault(value, place) != place:
                    raise NetworkError(
                        f"nodes[{first[value]}] and nodes[{place}] have the same {what} {value!r}. Every node needs "
                        "its own"
                    )
        self.network()
        return self

    def network(self) -> Network:
        """The graph of the nodes, numbered by their places."""
        number = {node.name: place for place, node in enumerate(self.nodes)}
        for edge in self.edges:
            strangers = [name for name in edge if name not in number]
            if len(edge) != 2 or strangers:
                why = f"there is no node {strangers[0]!r}" if strangers else "it must be a pair"
                raise NetworkError(f"the edge {edge} means nothing: {why}. The nodes are {', '.join(number)}")
        return Network(len(self.nodes), [[number[name] for name in edge] for edge in self.edges], name=self.run)

    def number(self, name: str) -> int:
        """The number of the node with this name."""
        for place, node in enumerate(self.nodes):
            if node.name == name:
                return place
        raise NetworkError(
            f"There is no node {name!r} in the network; there are {', '.join(node.name for node in self.nodes)}."
        )

    @property
    def fingerprint(self) -> str:
        """120 bits of all of it, as people can compare them: six groups of four letters and digits."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        text = base64.b32encode(hashlib.blake2b(canonical.encode(), digest_size=15).digest()).decode().lower()
        return "-".join(text[i : i + 4] for i in range(0, len(text), 4))

    def toml(self) -> str:
        """The file's text."""
        lines = [_HEAD]
        for key in ("format", "run", "method", "support", "reg", "tol", "interval"):
            # ASCII strings and finite numbers look the same in JSON and TOML
            lines.append(f"{key} = {json.dumps(getattr(self, key))}")
        lines += [f"began = {self.began.isoformat()}", f'fingerprint = "{self.fingerprint}"', "", "edges = ["]
        lines += [*(f"    {json.dumps(edge)}," for edge in self.edges), "]"]
        for node in self.nodes:
            known = node.model_dump(exclude_none=True)
            lines += ["", "[[nodes]]", *(f"{key} = {json.dumps(value)}" for key, value in known.items())]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Write ``network.toml``."""
        write_text(path, self.toml())

    @classmethod
    def read(cls, path: Path) -> NetworkFile:
        """What the file says, if all of it makes sense and it is what was written; else an error that says what is
        wrong."""
        values = _read_toml(path)
        claimed = values.pop("fingerprint", None)
        found = cls.checked(values, str(path))
        if claimed != found.fingerprint:
            raise ConfigError(
                f"{path}: the fingerprint is {claimed!r}, and that of its content is {found.fingerprint!r}. Somebody "
                "has changed the file since it was made. Get it again from whoever made the network."
            )
        return found

    @classmethod
    def checked(cls, values: dict[str, Any], where: str) -> NetworkFile:
        """The network of these values, or an error that names the key ``where`` it stands."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError("\n".join(f"{where}: {_problem(item)}" for item in error.errors())) from None


@dataclass(frozen=True)
class Kit:
    """What a node needs to start, in a folder: ``network.toml``, ``secret.key``, and ``node.toml`` with its name, the
    fingerprint of the network it agreed to, and perhaps where to ``listen``, if that is not its endpoint (behind a
    router, in a container)."""

    folder: Path
    name: str
    network: NetworkFile
    keys: KeyPair = field(repr=False)
    listen: str | None = None

    @property
    def number(self) -> int:
        """The node's."""
        return self.network.number(self.name)

    @property
    def entry(self) -> NodeEntry:
        """The node as the others know it."""
        return self.network.nodes[self.number]

    @classmethod
    def open(cls, folder: Path) -> Kit:
        """The kit in the folder. Refuses one whose parts do not belong together, or whose secret others can read."""
        if not folder.is_dir():
            raise FileError(
                f"There is no kit {folder}. Name the folder that has {NODE}, {NETWORK} and {SECRET}: `barymesh network "
                "create` or `barymesh network accept` makes it."
            )
        place = folder / NODE
        said = _read_toml(place)
        strangers = [key for key in said if key not in ("name", "fingerprint", "listen")]
        if strangers:
            raise ConfigError(f"{place}: unknown key {strangers[0]!r}. Known keys: name, fingerprint, listen.")
        for key in ("name", "fingerprint"):
            if not isinstance(said.get(key), str):
                raise ConfigError(f"{place}: the key {key!r} is missing, or no text. {_ACCEPT}")
        listen = said.get("listen")
        if listen is not None:
            endpoints.checked(str(listen))
        network = NetworkFile.read(folder / NETWORK)
        if network.fingerprint != said["fingerprint"]:
            raise ConfigError(
                f"{folder / NETWORK} has the fingerprint {network.fingerprint}, and {place} agreed to "
                f"{said['fingerprint']}. If the network was changed on purpose: {_ACCEPT}"
            )
        kit = cls(folder, said["name"], network, KeyPair.load(folder / SECRET), listen)
        if kit.keys.public != kit.entry.public_key:
            raise CurveKeyError(
                f"{folder / SECRET} has the public key {kit.keys.public}, and the network file says that {kit.name!r} "
                f"has {kit.entry.public_key}. Use the right key, or have the network file changed."
            )
        return kit


_ACCEPT = "Compare the fingerprint with the others, then run `barymesh network accept network.toml KIT`."


def accept(network: NetworkFile, folder: Path) -> Kit:
    """Put the network into the kit that has ``secret.key``; its key tells which node it is."""
    public = KeyPair.load(folder / SECRET).public
    names = [node.name for node in network.nodes if node.public_key == public]
    if not names:
        raise CurveKeyError(
            f"No node of the network has the public key {public} of {folder / SECRET}. Send it to whoever makes the "
            "network, for `barymesh network add`."
        )
    listen = _read_toml(folder / NODE).get("listen") if (folder / NODE).exists() else None
    _write_kit(network, names[0], folder, listen)
    return Kit.open(folder)


@dataclass(frozen=True)
class NewNode:
    """A node to be. Without ``public_key`` a key is made for it, in its kit."""

    name: str
    endpoint: str
    public_key: str | None = None
    status_port: int | None = None


def create(
    folder: Path,
    nodes: Sequence[NewNode],
    edges: Iterable[Sequence[str]],
    *,
    support: str,
    reg: float,
    run: str | None = None,
    method: str = "sinkhorn",
    tol: float = 1e-6,
    interval: float = 0.05,
    began: datetime | None = None,
) -> NetworkFile:
    """Make a network: ``network.toml``, and in ``kits/NAME`` the kit of each node that has no key yet."""
    now = datetime.now(UTC)
    path = folder / NETWORK
    if path.exists():
        raise FileError(f"{path} exists already. Choose another folder, or change it with `barymesh network add`.")
    shared = {
        "run": f"{now:%Y-%m-%d}-{secrets.token_hex(4)}" if run is None else run,
        "method": method, "support": support, "reg": reg, "tol": tol, "interval": interval, "began": began or now,
    }  # fmt: skip
    return _make(path, shared, [], nodes, edges)


def add(path: Path, node: NewNode, neighbours: Sequence[str]) -> NetworkFile:
    """Add a node that talks to the ``neighbours``. The file gets another fingerprint, so the run begins anew: the kits
    of the others stay as they are, and refuse to start with the new file until it is accepted."""
    known = NetworkFile.read(path)
    edges = [*known.edges, *([other, node.name] for other in neighbours)]
    return _make(path, _again(known), known.nodes, [node], edges)


def remove(path: Path, name: str, edges: Sequence[Sequence[str]] = ()) -> NetworkFile:
    """Take a node away, and add ``edges`` between those who stay. Its kit stays where it is, and opens no door any
    more once the others have accepted the file."""
    known = NetworkFile.read(path)
    known.number(name)
    kept = [edge for edge in known.edges if name not in edge]
    return _make(path, _again(known), [node for node in known.nodes if node.name != name], [], [*kept, *edges])


def _again(known: NetworkFile) -> dict[str, Any]:
    """What stays when nodes come or go; everybody begins again."""
    return {**known.model_dump(exclude={"nodes", "edges"}), "began": datetime.now(UTC)}


def _make(
    path: Path,
    shared: dict[str, Any],
    old: Sequence[NodeEntry],
    new: Sequence[NewNode],
    edges: Iterable[Sequence[str]],
) -> NetworkFile:
    """Check everything, then write: keys first, so that a file never tells of a key that nobody has."""
    made = {node.name: KeyPair.create() for node in new if node.public_key is None}
    entries = [
        *(node.model_dump() for node in old),
        *({**vars(node), "public_key": node.public_key or made[node.name].public} for node in new),
    ]
    network = NetworkFile.checked({**shared, "edges": [list(edge) for edge in edges], "nodes": entries}, str(path))
    homes = {name: path.parent / KITS / name for name in made}
    for home in homes.values():
        if home.exists():
            raise FileError(f"{home} exists already, and may hold a key that is in use. Move it away first.")
    for name, keys in made.items():
        keys.save(homes[name] / SECRET)
        _write_kit(network, name, homes[name])
    network.write(path)
    return network


def _write_kit(network: NetworkFile, name: str, folder: Path, listen: str | None = None) -> None:
    network.write(folder / NETWORK)
    lines = [
        "# A start-up kit of barymesh: barymesh node KIT --data FILE",
        f'name = "{name}"',
        f'fingerprint = "{network.fingerprint}"',
        *([f"listen = {json.dumps(listen)}"] if listen else []),
    ]
    write_text(folder / NODE, "\n".join(lines) + "\n")


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileError(f"There is no file {path}. `barymesh network create` and `barymesh network accept` make it.")
    return read_toml(path)


def _problem(item: Any) -> str:
    """An error of pydantic as a sentence that names the key."""
    place, said = item["loc"], item["msg"].removeprefix("Value error, ").rstrip(".")
    if not place:
        return f"{said}."
    key = str(place[0]) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[1:])
    fields = (NetworkFile if len(place) == 1 else NodeEntry).model_fields
    if item["type"] == "extra_forbidden":
        return f"unknown key {key!r}. Known keys: {', '.join(fields)}."
    if item["type"] == "missing":
        return f"the key {key!r} is missing. It holds {fields[str(place[-1])].description}."
    return f"{key}: {said}{given_value(item)}."
