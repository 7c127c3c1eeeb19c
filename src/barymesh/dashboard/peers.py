"""Recordings of a real network, from the status of its nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.filesize import decimal

from barymesh.dashboard.recording import KeptScenes
from barymesh.dashboard.scene import Barycenter, Columns, Graph, NodeTable, Recording, Scene, layout, thinned
from barymesh.errors import NetworkError
from barymesh.metrics import consensus_distance, total_variations
from barymesh.peers.network_file import NetworkFile
from barymesh.peers.states import node_state, state_text
from barymesh.peers.status import query
from barymesh.record import NodeState
from barymesh.subsample import MOST_PICTURED, evenly
from barymesh.support.points import Support
from barymesh.support.text import parse_support
from barymesh.transport.subscriber import LinkState
from barymesh.viz.theme import shown_number

# seconds until a node must have answered; with the time between two polls this is well below 5
ANSWER_LIMIT = 2.0
# seconds without a message from a neighbour after which a connection does not show that it is alive
SILENCE = 5.0
MOST_THREADS = 32
DEAD = NodeState.DEAD
RUNNING = (NodeState.STARTING, NodeState.WORKING, NodeState.WAITING, NodeState.STUCK, NodeState.CUT_OFF)
# rows of the history that are kept
MOST_KEPT = 20_000
COLUMNS = ("time", "consensus_distance", "distance", "error", "activations", "messages", "bytes")


@dataclass(frozen=True)
class StatusAddress:
    """A node: its ``name``, if it is known, and the address of its status, if it has one."""

    name: str | None
    host: str
    port: int | None


class PeersSource:
    """Queries all ``places`` for every scene, and keeps the scenes. ``network``: the nodes and their links; without it,
    these are taken from the links that the nodes report."""

    def __init__(self, places: Sequence[StatusAddress], network: NetworkFile | None = None, where: str = "") -> None:
        self.places, self.network, self.where = places, network, where
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._estimates: dict[str, NDArray[np.float64]] = {}
        self._rows: list[tuple[float, ...]] = []
        self._began = time.monotonic()
        self._graph: Graph | None = None
        self._kept = KeptScenes()
        self._support: Support | None = None
        self._pool = ThreadPoolExecutor(min(MOST_THREADS, max(len(places), 1)), "status")

    @classmethod
    def of_file(cls, path: Path) -> PeersSource:
        """The nodes of a ``network.toml`` that have status ports."""
        network = NetworkFile.read(path)
        if all(node.status_port is None for node in network.nodes):
            raise NetworkError(
                f"No node of {path} has a status port, so there is nothing to show. Make the network with status=PORT "
                "for the nodes on this machine."
            )
        return cls(
            [StatusAddress(node.name, "127.0.0.1", node.status_port) for node in network.nodes], network, str(path)
        )

    def recording(self) -> Recording:
        """What has been seen up to now."""
        scene, before = self.scene(), self._kept.scenes[-1] if self._kept.scenes else None
        if before is not None and _shape(before) != _shape(scene):
            # other nodes, or other points: there is no way to show both on one page
            self._kept = KeptScenes()
        self._kept.add(scene)
        known = self._facts.values()
        method = next((str(one["method"]) for one in known), "")
        run = self.network.run if self.network is not None else next((str(one["run"]) for one in known), "network")
        title = f"{method}: {run}" if method else run
        return Recording(title, list(self._kept.scenes), {"network": self._history()})

    def scene(self) -> Scene:
        """The scene now."""
        answers = self._answers()
        names, edges = self._known_graph(answers)
        states = np.array([self._state(name, answers) for name in names], dtype=object)
        estimates = {name: self._estimates[name] for name in names if name in self._estimates}
        # dead nodes do not count for the mean
        alive = [estimates[name] for name, one in zip(names, states, strict=True) if name in estimates and one != DEAD]
        mean = np.mean(alive or list(estimates.values()), axis=0) if estimates else np.empty(0)
        own = [np.array([estimates[name]]) if name in estimates else None for name in names]
        errors = np.array([np.nan if row is None else float(total_variations(row, mean)[0]) for row in own])
        self._remember(names, edges, estimates, errors)
        statuses = [self._facts.get(name, {}) for name in names]
        trees = [facts.get("tree") or {} for facts in statuses]
        number = {name: place for place, name in enumerate(names)}
        return Scene(
            status=_status(states),
            running=any(one in RUNNING for one in states),
            now=time.monotonic() - self._began,
            nodes=NodeTable(
                graph=self._drawn(names, edges),
                errors=errors,
                states=states,
                staleness=self._staleness(names, edges, answers),
                gaps=np.array([facts.get("gap") for facts in statuses], dtype=float),
                parents=np.array([number.get(tree.get("parent", ""), -1) for tree in trees], dtype=np.intp),
                masked=np.array([facts.get("masks") is not None for facts in statuses], dtype=bool),
                notes=[self._note(name, answers) for name in names],
            ),
            barycenter=self._barycenter(estimates, mean),
            epoch=max((np.floor(tree["epoch"]) for tree in trees if tree), default=np.nan),
            rounds=any(tree.get("rounds", False) for tree in trees),
            counts=self._counts(len(names), len(edges)),
            proofs=list(
                dict.fromkeys(one["text"] for facts in statuses for one in facts.get("doubts", ()) if one["proof"])
            ),
        )

    # ---- queries

    def _answers(self) -> dict[str, Mapping[str, Any]]:
        """The status of the nodes that answer, by name. Nodes of other networks are left out."""
        there = [place for place in self.places if place.port is not None]
        answers: dict[str, Mapping[str, Any]] = {}
        for place, (facts, estimate) in zip(there, self._pool.map(_fetched, there), strict=True):
            if facts is None or "links" not in facts or place.name not in (None, facts["name"]):
                continue
            if self.network is not None and facts["fingerprint"] != self.network.fingerprint:
                continue
            name = str(facts["name"])
            answers[name] = facts
            weights = (estimate or {}).get("weights")
            if weights:
                self._estimates[name] = np.array(weights, dtype=float)
        self._facts |= answers
        return answers

    def _known_graph(self, answers: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], NDArray[np.intp]]:
        if self.network is not None:
            return [node.name for node in self.network.nodes], self.network.network().edges
        # the nodes that answered, in the given order; then their neighbours
        names = list(dict.fromkeys([*self._facts, *(peer for one in self._facts.values() for peer in one["links"])]))
        number = {name: place for place, name in enumerate(names)}
        pairs = {tuple(sorted((number[a], number[b]))) for a, one in self._facts.items() for b in one["links"]}
        return names, np.array(sorted(pairs), dtype=np.intp).reshape(-1, 2)

    def _state(self, name: str, answers: Mapping[str, Mapping[str, Any]]) -> NodeState:
        if name in answers:
            return node_state(answers[name])
        before = self._facts.get(name)
        if before is not None:
            # it was here, and does not answer any more
            return NodeState.ENDED if before["stopped"] and not before.get("keeps_running") else NodeState.DEAD
        links = [one["links"][name] for one in answers.values() if name in one["links"]]
        if any(one["state"] == LinkState.CONNECTED and _fresh(one) for one in links):
            return NodeState.ELSEWHERE
        if any(one["state"] != LinkState.NEVER for one in links):
            return NodeState.DEAD
        return NodeState.UNKNOWN

    def _staleness(
        self, names: Sequence[str], edges: NDArray[np.intp], answers: Mapping[str, Mapping[str, Any]]
    ) -> NDArray[np.float64]:
        """That of the worse direction of each edge; NaN if neither of its nodes answers."""
        worse = []
        for i, j in edges:
            ways = ((names[i], names[j]), (names[j], names[i]))
            ages = [answers[a]["links"][b].get("silence") for a, b in ways if b in answers.get(a, {}).get("links", {})]
            worse.append(max((np.inf if one is None else float(one) for one in ages), default=np.nan))
        return np.array(worse, dtype=float)

    def _note(self, name: str, answers: Mapping[str, Mapping[str, Any]]) -> str:
        facts = answers.get(name)
        if facts is None:
            return ""
        links = facts["links"].values()
        connected = sum(link["state"] == LinkState.CONNECTED for link in links)
        counts = f"{facts['activations']:,} activations, {connected} of {len(links)} neighbours connected"
        parts = [state_text(facts), counts]
        if facts.get("tv_bound") is not None:
            bound = shown_number(facts["tv_bound"], 2)
            parts.append(f"certified to be within {bound} of the barycenter (total variation)")
        if facts.get("masks") is not None and not facts["masks"]["why_not"]:
            parts.append("contributes to masked sums")
        return "; ".join(parts)

    # ---- history

    def _remember(
        self, names: Sequence[str], edges: NDArray[np.intp], estimates: Mapping[str, NDArray[np.float64]],
        errors: NDArray[np.float64],
    ) -> None:  # fmt: skip
        if not self._facts:
            return
        believed = [facts["error"] for facts in self._facts.values() if facts["error"] is not None]
        consensus = np.nan
        if len(estimates) == len(names) and len(edges):
            consensus = consensus_distance(np.array([estimates[name] for name in names]), edges)
        self._rows.append(
            (
                time.monotonic() - self._began,
                consensus,
                float(np.nanmax(errors)) if np.isfinite(errors).any() else np.nan,
                max(believed, default=np.nan),
                float(sum(facts["activations"] for facts in self._facts.values())),
                float(sum(facts["sent_messages"] for facts in self._facts.values())),
                float(sum(facts["sent_bytes"] for facts in self._facts.values())),
            )
        )
        if len(self._rows) > MOST_KEPT:
            # the older half, more thinly
            self._rows[: MOST_KEPT // 2] = self._rows[: MOST_KEPT // 2 : 2]

    def _history(self) -> Columns:
        table = np.array(self._rows, dtype=float).reshape(-1, len(COLUMNS))
        return thinned({name: table[:, k] for k, name in enumerate(COLUMNS)})

    def _drawn(self, names: Sequence[str], edges: NDArray[np.intp]) -> Graph:
        known = self._graph
        if known is None or list(known.names) != list(names) or not np.array_equal(known.edges, edges):
            known = self._graph = Graph(names, layout(len(names), edges), edges, len(names), len(edges))
        return known

    def _barycenter(self, estimates: Mapping[str, NDArray[np.float64]], mean: NDArray[np.float64]) -> Barycenter | None:
        if not estimates:
            return None
        if self._support is None:
            found = parse_support(next(str(facts["support"]) for facts in self._facts.values()))
            if not isinstance(found, Support):
                # points that move: there is no one place to draw the estimates in
                return None
            self._support = found
        owners = [list(estimates)[k] for k in evenly(len(estimates), MOST_PICTURED)]
        return Barycenter(self._support, mean, np.array([estimates[name] for name in owners]), owners)

    def _counts(self, size: int, links: int) -> dict[str, str]:
        found = {"nodes": f"{size:,}", "links": f"{links:,}"}
        if self._rows:
            last = dict(zip(COLUMNS, self._rows[-1], strict=True))
            found |= {name: f"{last[name]:,.0f}" for name in ("activations", "messages")}
            found["bytes sent"] = decimal(int(last["bytes"]))
        return found


def _fetched(place: StatusAddress) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    assert place.port is not None
    facts = query(place.port, ANSWER_LIMIT, place.host)
    return facts, None if facts is None else query(place.port, ANSWER_LIMIT, place.host, "/estimate")


def _shape(scene: Scene) -> tuple[Any, ...]:
    seen = scene.barycenter
    return scene.nodes and id(scene.nodes.graph), None if seen is None else seen.support.points.shape


def _fresh(link: Mapping[str, Any]) -> bool:
    return link.get("silence") is not None and link["silence"] < SILENCE


def _status(states: NDArray[np.object_]) -> str:
    """A sentence about them all."""
    if all(one is NodeState.UNKNOWN for one in states):
        return "No node answers yet."
    counts = {one: sum(found is one for found in states) for one in NodeState}
    found = ", ".join(f"{count} {one}" for one, count in counts.items() if count)
    return f"{len(states)} nodes: {found}."
