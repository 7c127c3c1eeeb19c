"""The files of a network of organisations: the public ``network.toml``, and a start-up kit for each node.

Two files with the same fingerprint have the same content: problem, graph and keys. Peers with different files never use
each other's messages, and nobody is blamed for having another: when the network changes, sites take the new file when
they can, and work with those that have the same file meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import ConfigError, FileError, NetworkError, OptionError, SupportError, WeightError
from barymesh.extras import needs
from barymesh.io.atomic import write_text
from barymesh.io.toml import read_toml
from barymesh.io.validation import error_text
from barymesh.method_names import NETWORK_METHODS, SYNCHRONOUS, WITHOUT_STEP
from barymesh.network.topology import Network
from barymesh.support.free import FreeSupport
from barymesh.support.points import Support
from barymesh.support.text import parse_support
from barymesh.transport import endpoints
from barymesh.transport.keys import CurveKeyError, KeyPair, raw_public, readable_digest

with needs("peers"):
    import tomli_w
    from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

FORMAT = 1
NETWORK, NODE, SECRET, KITS = "network.toml", "node.toml", "secret.key", "kits"
# the key that a network which is yet to be accepted has for the node
NEXT_SECRET = "next.key"
METHODS = tuple(name for name in NETWORK_METHODS if name not in SYNCHRONOUS)

# fields that the first files of this format do not have: their defaults are no part of the fingerprint
LATER_FIELDS = ("debias", "masks", "min_members")
# the method whose sums can be masked
MASKED_METHOD = "rounds"

# no node counts for more than so many ordinary ones, nor for less than this share of one
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e3

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
# safe as the name of a folder and in a shell
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ALL_INTERFACES = re.compile(r"tcp://(\*|0\.0\.0\.0|\[[0:]+\]):\d+")

_HEAD = """\
# A network of barymesh. This file is public: it holds no secret. Every node needs exactly this file; any change of it
# changes its fingerprint. Compare the fingerprint with the others before the first run, for instance by telephone.
"""


def _checked_name(what: str, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise NetworkError(
            f"the {what} {value!r} must be 1 to 64 letters, digits, '_', '.' or '-', and begin with a letter or digit"
        )
    return value


class NodeEntry(BaseModel):
    """One node of the network, as the others see it."""

    model_config = _STRICT

    name: str = Field(description="the name of the node")
    endpoint: str = Field(description="where its neighbours reach it, tcp://host:port")
    public_key: str = Field(description="the public half of its key, from `barymesh keygen`")
    weight: float = Field(
        default=1.0, ge=LEAST_WEIGHT, le=MOST_WEIGHT, description="the weight of its measure; an ordinary node has 1"
    )
    status_port: int | None = Field(
        default=None, ge=1, lt=2**16, description="the port of its status, on its own machine"
    )

    @field_validator("name")
    @classmethod
    def _valid_name(cls, value: str) -> str:
        return _checked_name("name", value)

    @field_validator("endpoint")
    @classmethod
    def _reachable(cls, value: str) -> str:
        endpoints.checked(value)
        if not (value.isascii() and value.isprintable()):
            raise OptionError(f"the endpoint {value!r} has characters that are not printable ASCII")
        if _ALL_INTERFACES.fullmatch(value) or (value.startswith("tcp://") and int(value.rpartition(":")[2]) == 0):
            raise OptionError(
                f"the endpoint {value!r} must have a host and a port that the neighbours can connect to; if the node "
                "listens elsewhere, write that under listen in its node.toml"
            )
        return value

    @field_validator("public_key")
    @classmethod
    def _valid_key(cls, value: str) -> str:
        raw_public(value)
        return value


class NetworkFile(BaseModel):
    """What all nodes must agree on. The number of a node is its index in ``nodes``."""

    model_config = _STRICT

    format: int = Field(default=FORMAT, description="the version of the file's format")
    run: str = Field(description="the id of the run, which no other run has")
    method: str = Field(default="sinkhorn", description="the method of the nodes")
    support: str = Field(description="where the barycenter lives: a grid such as 100:-5:5")
    reg: float = Field(gt=0, allow_inf_nan=False, description="the entropic regularisation")
    debias: bool = Field(default=False, description="whether the barycenter is debiased")
    tol: float = Field(default=1e-6, ge=0, allow_inf_nan=False, description="when the nodes may stop")
    interval: float = Field(
        default=0.05, ge=0, le=3600, allow_inf_nan=False, description="seconds between activations of a node"
    )
    masks: bool = Field(default=False, description="whether the nodes mask what they report")
    min_members: int = Field(
        default=3, ge=3, description="a node contributes to masked sums over so many members at least"
    )
    began: AwareDatetime = Field(description="when the run begins, with its time zone")
    edges: list[list[str]] = Field(description="the pairs of nodes that exchange messages, by name")
    nodes: list[NodeEntry] = Field(min_length=2, description="the nodes")

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: int) -> int:
        if value != FORMAT:
            raise OptionError(
                f"the format is {value}, and this version of barymesh reads {FORMAT}. Install a version that reads it"
            )
        return value

    @field_validator("run")
    @classmethod
    def _valid_run(cls, value: str) -> str:
        return _checked_name("run id", value)

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
    def _same_for_all_nodes(cls, value: str) -> str:
        found = parse_support(value, check_only=True)
        if not isinstance(found, Support) and not (isinstance(found, FreeSupport) and found.dimension is not None):
            raise SupportError(
                f"the support {value!r} could differ between nodes. Give a grid: count:lower:upper for each axis, "
                "joined by commas; or points that move, with their dimension: free:n=50,dimension=2"
            )
        return value

    @field_validator("began")
    @classmethod
    def _in_seconds(cls, value: datetime) -> datetime:
        # the first and the last year cannot be converted to another time zone
        if not 1970 <= value.year < 9000:
            raise OptionError(f"the year is {value.year}; it must be 1970 to 8999")
        return value.astimezone(UTC).replace(microsecond=0)

    @model_validator(mode="after")
    def _usable_weights(self) -> NetworkFile:
        unequal = [node.name for node in self.nodes if node.weight != 1]
        if unequal and self.method not in WITHOUT_STEP:
            raise WeightError(
                f"the weight of {unequal[0]!r} is not 1, and {self.method} needs weights of 1: its step depends on the "
                "weights of all nodes. Make the network with method sinkhorn"
            )
        return self

    @model_validator(mode="after")
    def _maskable(self) -> NetworkFile:
        if not self.masks:
            return self
        if self.method != MASKED_METHOD:
            raise OptionError(f"{self.method} has no masks: its nodes show what they send. Choose {MASKED_METHOD}")
        if isinstance(parse_support(self.support, check_only=True), FreeSupport):
            raise SupportError(f"the support {self.support!r} has no masks, which need points that stay. Give a grid")
        if len(self.nodes) < self.min_members:
            raise NetworkError(
                f"a sum over {len(self.nodes)} nodes hides too little: masks need {self.min_members} nodes or more. "
                "Add nodes, or make the network with --open, without masks"
            )
        return self

    @model_validator(mode="after")
    def _distinct_nodes(self) -> NetworkFile:
        for what, key in (("name", "name"), ("public key", "public_key"), ("endpoint", "endpoint")):
            first: dict[str, int] = {}
            for number, node in enumerate(self.nodes):
                value = getattr(node, key)
                if first.setdefault(value, number) != number:
                    raise NetworkError(
                        f"nodes[{first[value]}] and nodes[{number}] have the same {what} {value!r}. Every node needs "
                        "its own"
                    )
        self.network()
        return self

    def network(self) -> Network:
        """The graph of the nodes, by their numbers."""
        number = {node.name: k for k, node in enumerate(self.nodes)}
        for edge in self.edges:
            unknown = [name for name in edge if name not in number]
            if len(edge) != 2 or unknown:
                why = f"there is no node {unknown[0]!r}" if unknown else "it must be a pair of nodes"
                raise NetworkError(f"the edge {edge} is not valid: {why}. The nodes are {', '.join(number)}")
        return Network(len(self.nodes), [[number[name] for name in edge] for edge in self.edges], name=self.run)

    def relative_weights(self) -> NDArray[np.float64]:
        """The weights of the nodes over their average, ``(m,)``; the same to the last bit at every node."""
        weights = np.array([node.weight for node in self.nodes])
        return np.asarray(weights * (len(weights) / math.fsum(weights)))

    def number(self, name: str) -> int:
        """The number of the node with this name."""
        for number, node in enumerate(self.nodes):
            if node.name == name:
                return number
        raise NetworkError(
            f"There is no node {name!r} in the network; there are {', '.join(node.name for node in self.nodes)}."
        )

    @property
    def fingerprint(self) -> str:
        """120 bits of a digest of all of it; see ``readable_digest``."""
        values = self.model_dump(mode="json")
        for name in LATER_FIELDS:
            if values[name] == type(self).model_fields[name].default:
                del values[name]
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return readable_digest(hashlib.blake2b(canonical.encode(), digest_size=15).digest())

    def toml(self) -> str:
        """The text of the file."""
        values = self.model_dump(exclude_none=True, exclude={"edges", "nodes"})
        nodes = [node.model_dump(exclude_none=True) for node in self.nodes]
        values |= {"fingerprint": self.fingerprint, "edges": self.edges, "nodes": nodes}
        return f"{_HEAD}\n{tomli_w.dumps(values)}"

    def write(self, path: Path) -> None:
        """Write ``network.toml``."""
        write_text(path, self.toml())

    @classmethod
    def read(cls, path: Path) -> NetworkFile:
        """The network in the file. ConfigError if a value is not valid, or if the content does not match the
        fingerprint."""
        values = _read_toml(path)
        stated = values.pop("fingerprint", None)
        network = cls.checked(values, str(path))
        if stated != network.fingerprint:
            raise ConfigError(
                f"{path}: the fingerprint is {stated!r}, and that of its content is {network.fingerprint!r}. The file "
                "was changed after it was made. Get it again from the person who made the network."
            )
        return network

    @classmethod
    def checked(cls, values: dict[str, Any], where: str) -> NetworkFile:
        """The network with these values. ConfigError, which begins with ``where`` and names the key, if they are not
        valid."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError("\n".join(f"{where}: {error_text(item, cls)}" for item in error.errors())) from None


@dataclass(frozen=True)
class Kit:
    """What a node needs to start, in a folder: ``network.toml``, ``secret.key``, and ``node.toml`` with its name, the
    fingerprint of the network it has accepted, and the address to ``listen`` at if that is not its endpoint (behind a
    router, in a container)."""

    folder: Path
    name: str
    network: NetworkFile
    keys: KeyPair = field(repr=False)
    listen: str | None = None

    @property
    def number(self) -> int:
        """The number of the node."""
        return self.network.number(self.name)

    @property
    def entry(self) -> NodeEntry:
        """The node as the others see it."""
        return self.network.nodes[self.number]

    @classmethod
    def open(cls, folder: Path) -> Kit:
        """The kit in the folder. Its parts must belong together, and no other user may be able to read its secret."""
        if not folder.is_dir():
            raise FileError(
                f"There is no kit {folder}. Name the folder that has {NODE}, {NETWORK} and {SECRET}: `barymesh network "
                "create` or `barymesh network accept` makes it."
            )
        path = folder / NODE
        values = _read_toml(path)
        unknown = [key for key in values if key not in ("name", "fingerprint", "listen")]
        if unknown:
            raise ConfigError(f"{path}: unknown key {unknown[0]!r}. Known keys: name, fingerprint, listen.")
        for key in ("name", "fingerprint"):
            if not isinstance(values.get(key), str):
                raise ConfigError(f"{path}: the key {key!r} is missing, or not text. {_ACCEPT}")
        listen = values.get("listen")
        if listen is not None:
            endpoints.checked(str(listen))
        network = NetworkFile.read(folder / NETWORK)
        if network.fingerprint != values["fingerprint"]:
            raise ConfigError(
                f"{folder / NETWORK} has the fingerprint {network.fingerprint}, and {path} has accepted "
                f"{values['fingerprint']}. If the network was changed on purpose: {_ACCEPT}"
            )
        kit = cls(folder, values["name"], network, KeyPair.load(folder / SECRET), listen)
        if kit.keys.public != kit.entry.public_key:
            raise CurveKeyError(
                f"{folder / SECRET} has the public key {kit.keys.public}, and {kit.name!r} has the public key "
                f"{kit.entry.public_key} in the network file. Use the right key, or have the network file changed."
            )
        return kit


_ACCEPT = "Compare the fingerprint with the others, then run `barymesh network accept network.toml KIT`."


def accept(network: NetworkFile, folder: Path) -> Kit:
    """Put the network into the kit that has ``secret.key``. The key determines which node it is. If the network has the
    key in ``next.key``, that takes the place of the old one."""
    names = {node.public_key: node.name for node in network.nodes}
    public = KeyPair.load(folder / SECRET).public
    rotated = public not in names and (folder / NEXT_SECRET).exists()
    if rotated:
        public = KeyPair.load(folder / NEXT_SECRET).public
    if public not in names:
        raise CurveKeyError(
            f"No node of the network has the public key {public} of {folder}. Send it to the person who makes the "
            "network, for `barymesh network add` or `rotate-key`."
        )
    listen = _read_toml(folder / NODE).get("listen") if (folder / NODE).exists() else None
    if rotated:
        os.replace(folder / NEXT_SECRET, folder / SECRET)
    _write_kit(network, names[public], folder, listen)
    return Kit.open(folder)


@dataclass(frozen=True)
class NewNode:
    """A node to be added. Without ``public_key`` a key is made for it, in its kit."""

    name: str
    endpoint: str
    public_key: str | None = None
    status_port: int | None = None
    weight: float = 1.0


def create(
    folder: Path,
    nodes: Sequence[NewNode],
    edges: Iterable[Sequence[str]],
    *,
    support: str,
    reg: float,
    run: str | None = None,
    method: str = "sinkhorn",
    debias: bool = False,
    tol: float = 1e-6,
    interval: float = 0.05,
    began: datetime | None = None,
    masks: bool = False,
    min_members: int = 3,
) -> NetworkFile:
    """Make a network: ``network.toml``, and in ``kits/NAME`` the kit of each node that has no key yet."""
    now = datetime.now(UTC)
    path = folder / NETWORK
    if path.exists():
        raise FileError(f"{path} exists already. Choose another folder, or change it with `barymesh network add`.")
    shared = {
        "run": f"{now:%Y-%m-%d}-{secrets.token_hex(4)}" if run is None else run,
        "method": method, "support": support, "reg": reg, "debias": debias, "tol": tol, "interval": interval,
        "began": began or now, "masks": masks, "min_members": min_members,
    }  # fmt: skip
    return _make(path, shared, [], nodes, edges)


def add(path: Path, node: NewNode, neighbours: Sequence[str]) -> NetworkFile:
    """Add a node with these ``neighbours``. The file gets another fingerprint. The kits of the others do not change,
    and refuse to start with the new file until it is accepted."""
    known = NetworkFile.read(path)
    edges = [*known.edges, *([other, node.name] for other in neighbours)]
    return _make(path, _restarted(known), known.nodes, [node], edges)


def remove(path: Path, name: str, edges: Sequence[Sequence[str]] = ()) -> NetworkFile:
    """Remove a node, and add ``edges`` between the others. Its kit is left in place; its key is not admitted any more
    once the others have accepted the file."""
    known = NetworkFile.read(path)
    known.number(name)
    kept = [edge for edge in known.edges if name not in edge]
    return _make(path, _restarted(known), [node for node in known.nodes if node.name != name], [], [*kept, *edges])


def rotate_key(path: Path, name: str, public_key: str) -> NetworkFile:
    """Give a node another key. The old one is not admitted any more once the others have accepted the file."""
    known = NetworkFile.read(path)
    number = known.number(name)
    if known.nodes[number].public_key == public_key:
        raise CurveKeyError(f"{name!r} has the public key {public_key} already. Make another with `barymesh keygen`.")
    nodes = list(known.nodes)
    nodes[number] = nodes[number].model_copy(update={"public_key": public_key})
    return _make(path, _restarted(known), nodes, [], known.edges)


def _restarted(known: NetworkFile) -> dict[str, Any]:
    """The values that do not change when nodes join or leave; the run starts again now."""
    return {**known.model_dump(exclude={"nodes", "edges"}), "began": datetime.now(UTC)}


def _make(
    path: Path,
    shared: dict[str, Any],
    old: Sequence[NodeEntry],
    new: Sequence[NewNode],
    edges: Iterable[Sequence[str]],
) -> NetworkFile:
    """Check everything, then write: keys first, so that no file has a public key whose secret key is missing."""
    made = {node.name: KeyPair.create() for node in new if node.public_key is None}
    entries = [
        *(node.model_dump() for node in old),
        *({**vars(node), "public_key": node.public_key or made[node.name].public} for node in new),
    ]
    network = NetworkFile.checked({**shared, "edges": [list(edge) for edge in edges], "nodes": entries}, str(path))
    folders = {name: path.parent / KITS / name for name in made}
    for kit in folders.values():
        if kit.exists():
            raise FileError(f"{kit} exists already, and may hold a key that is in use. Move it away first.")
    for name, keys in made.items():
        keys.save(folders[name] / SECRET)
        _write_kit(network, name, folders[name])
    network.write(path)
    return network


def _write_kit(network: NetworkFile, name: str, folder: Path, listen: str | None = None) -> None:
    network.write(folder / NETWORK)
    values = {"name": name, "fingerprint": network.fingerprint} | ({"listen": listen} if listen else {})
    write_text(folder / NODE, f"# A start-up kit of barymesh: barymesh node KIT --data FILE\n{tomli_w.dumps(values)}")


def _read_toml(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileError(f"There is no file {path}. `barymesh network create` and `barymesh network accept` make it.")
    return read_toml(path)
