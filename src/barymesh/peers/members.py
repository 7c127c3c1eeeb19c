"""Make a network of organisations, and change its members: the file for all, and kits for those without a key.

A changed file has another fingerprint. Sites accept it one by one (``kit.accept``).
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.decentralized.algorithm import Nodes
from barymesh.decentralized.build import build_algorithm
from barymesh.decentralized.masks.streams import Masks
from barymesh.errors import AccuracyWarning, FileError
from barymesh.measures import Empirical
from barymesh.peers.kit import SECRET, write_kit
from barymesh.peers.network_file import NETWORK, NetworkFile, NodeEntry
from barymesh.problem import Problem
from barymesh.support.points import Support
from barymesh.support.text import parse_support
from barymesh.transport.keys import CurveKeyError, KeyPair

KITS = "kits"


@dataclass(frozen=True)
class NewNode:
    """A node to be added. Without ``public_key`` a key is made for it, in its kit."""

    name: str
    endpoint: str
    public_key: str | None = None
    status_port: int | None = None
    weight: float = 1.0
    records: int | None = None


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
    weights: str = "declared",
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
        "weights": weights,
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
    if known.nodes[known.number(name)].public_key == public_key:
        raise CurveKeyError(f"{name!r} has the public key {public_key} already. Make another with `barymesh keygen`.")
    return _changed(path, known, name, public_key=public_key)


def declare(path: Path, name: str, **weight: float) -> NetworkFile:
    """Give a node another ``weight``, or another number of ``records``."""
    return _changed(path, NetworkFile.read(path), name, **weight)


def _changed(path: Path, known: NetworkFile, name: str, **values: Any) -> NetworkFile:
    """Change values of one node."""
    nodes, number = list(known.nodes), known.number(name)
    nodes[number] = nodes[number].model_copy(update=values)
    return _make(path, _restarted(known), nodes, [], known.edges)


def _restarted(known: NetworkFile) -> dict[str, Any]:
    """The values that do not change when nodes join or leave; the run starts again now."""
    return {**known.model_dump(exclude={"nodes", "edges"}), "began": datetime.now(UTC)}


def require_exact_masks(network: NetworkFile) -> None:
    """OptionError if reg is too small for masks: before anybody gets a kit, not at the start of the nodes."""
    if not network.masks:
        return
    weights, support = network.relative_weights(), parse_support(network.support)
    # any measure will do
    point = support.points[0] if isinstance(support, Support) else np.zeros(getattr(support, "dimension", None) or 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        problem = Problem.create([Empirical(point[None])], support, reg=network.reg, debias=network.debias)
    nodes = Nodes(network.network(), np.zeros(1, dtype=np.intp), weights[:1], weights)
    masks = Masks.of_one_owner(len(weights), 0, network.method, min_members=network.min_members)
    build_algorithm(network.method, problem, nodes, tol=network.tol, masks=masks)


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
    require_exact_masks(network)
    folders = {name: path.parent / KITS / name for name in made}
    for kit in folders.values():
        if kit.exists():
            raise FileError(f"{kit} exists already, and may hold a key that is in use. Move it away first.")
    for name, keys in made.items():
        keys.save(folders[name] / SECRET)
        write_kit(network, name, folders[name])
    network.write(path)
    return network
