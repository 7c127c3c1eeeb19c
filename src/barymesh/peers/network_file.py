"""The file of a network of organisations, the public ``network.toml``.

Two files with the same fingerprint have the same content: problem, graph and keys. Peers with different files never use
each other's messages, and nobody is blamed for having another: when the network changes, sites take the new file when
they can, and work with those that have the same file meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import ConfigError, FileError, NetworkError, OptionError, SupportError, WeightError
from barymesh.extras import needs
from barymesh.io.atomic import write_text
from barymesh.io.toml import read_toml
from barymesh.io.validation import error_text
from barymesh.method_names import DEBIASED_METHODS, NETWORK_METHODS, SYNCHRONOUS, WITHOUT_STEP
from barymesh.network.topology import Network
from barymesh.support.free import FreeSupport
from barymesh.support.points import Support
from barymesh.support.text import parse_support
from barymesh.transport import endpoints
from barymesh.transport.keys import raw_public, readable_digest

with needs("peers"):
    import tomli_w
    from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

FORMAT = 1
NETWORK = "network.toml"
METHODS = tuple(name for name in NETWORK_METHODS if name not in SYNCHRONOUS)

# fields that the first files of this format do not have: their defaults are no part of the fingerprint
LATER_FIELDS = ("debias", "masks", "min_members", "weights")
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


def _over_average(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(weights * (len(weights) / math.fsum(weights)))


class NodeEntry(BaseModel):
    """One node of the network, as the others see it."""

    model_config = _STRICT

    name: str = Field(description="the name of the node")
    endpoint: str = Field(description="where its neighbours reach it, tcp://host:port")
    public_key: str = Field(description="the public half of its key, from `barymesh keygen`")
    weight: float = Field(
        default=1.0, ge=LEAST_WEIGHT, le=MOST_WEIGHT, description="the weight of its measure; an ordinary node has 1"
    )
    records: int | None = Field(
        default=None, ge=1, description="the number of records of its data, where that is the weight of its measure"
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
    weights: Literal["declared", "size"] = Field(
        default="declared", description="the weights of the measures: those of the nodes below, or their records (size)"
    )
    support: str = Field(description="where the barycenter lives: a grid such as 100:-5:5")
    reg: float = Field(gt=0, allow_inf_nan=False, description="the entropic regularisation")
    debias: bool = Field(default=False, description="whether the barycenter is debiased")
    tol: float = Field(default=1e-6, ge=0, allow_inf_nan=False, description="when the nodes may stop")
    interval: float = Field(
        default=0.05, ge=0, le=3600, allow_inf_nan=False, description="seconds between activations of a node"
    )
    masks: bool = Field(
        default=False, description="whether the nodes mask what they report; a file that does not say so is open"
    )
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
        by_size = self.weights == "size"
        for node in self.nodes:
            if by_size and node.records is None:
                raise WeightError(
                    f"the weights are the numbers of records, and {node.name!r} declares none. Add records=NUMBER to it"
                )
            if by_size and node.weight != 1:
                raise WeightError(
                    f"{node.name!r} has the weight {node.weight:g}, and the weights are the numbers of records. Leave "
                    "the weight out, or make the network without weights by size"
                )
            if not by_size and node.records is not None:
                raise WeightError(
                    f"{node.name!r} declares {node.records} records, and the weights are not by size. Make the network "
                    "with --weights size, or leave the records out"
                )
        weights = self.node_weights()
        for node, weight in zip(self.nodes, weights, strict=True):
            if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
                raise WeightError(
                    f"{node.name!r} with {node.records} records would have {weight:.3g} times the average weight; it "
                    f"must be {LEAST_WEIGHT:g} to {MOST_WEIGHT:g} times. Give weights in place of records"
                )
            if weight != 1 and self.method not in WITHOUT_STEP:
                raise WeightError(
                    f"the weight of {node.name!r} is not 1, and {self.method} needs weights of 1: its step depends on "
                    "the weights of all nodes. Make the network with method sinkhorn"
                )
        return self

    @model_validator(mode="after")
    def _solvable(self) -> NetworkFile:
        moves = isinstance(parse_support(self.support, check_only=True), FreeSupport)
        if moves and self.debias:
            raise SupportError(
                f"a debiased barycenter needs points that stay, and those of {self.support!r} move. Leave out debias, "
                "or give a grid"
            )
        if (moves or self.debias) and self.method not in DEBIASED_METHODS:
            what = "has no points that move" if moves else "finds the entropic barycenter only"
            raise OptionError(f"{self.method} {what}. Choose {' or '.join(DEBIASED_METHODS)}")
        return self

    @model_validator(mode="after")
    def _maskable(self) -> NetworkFile:
        if not self.masks:
            return self
        if self.method != MASKED_METHOD:
            raise OptionError(f"{self.method} has no masks: its nodes show what they send. Choose {MASKED_METHOD}")
        support = parse_support(self.support, check_only=True)
        if isinstance(support, FreeSupport) and support.reach is None:
            raise SupportError(
                f"with masks all nodes must know how large their numbers can be, and the support {self.support!r} has "
                "no reach: add the largest coordinate of any measure, such as reach=10"
            )
        if len(self.nodes) < self.min_members:
            raise NetworkError(
                f"a sum over {len(self.nodes)} nodes hides too little: masks need {self.min_members} nodes or more. "
                "Add nodes, lower min_members (to 3 at least), or make the network with --open, without masks"
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

    def node_weights(self) -> NDArray[np.float64]:
        """The weights of the nodes, ``(m,)``; an ordinary node has 1."""
        if self.weights == "size":
            return _over_average(np.array([node.records for node in self.nodes], dtype=np.float64))
        return np.array([node.weight for node in self.nodes])

    def relative_weights(self) -> NDArray[np.float64]:
        """The weights of the nodes over their average, ``(m,)``; the same to the last bit at every node."""
        return _over_average(self.node_weights())

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
        for node in values["nodes"]:
            if node["records"] is None:
                del node["records"]
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
        values = read_file(path)
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


def read_file(path: Path) -> dict[str, Any]:
    """The values in a file of a network or a kit."""
    if not path.exists():
        raise FileError(f"There is no file {path}. `barymesh network create` and `barymesh network accept` make it.")
    return read_toml(path)
