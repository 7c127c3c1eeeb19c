"""The page: its text around the figures, and how both are updated from the scenes."""

# ruff: noqa: RUF001 (dashes are meant)
from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from barymesh.dashboard.figures import MARK_LOOKS, Figures, distance_text, shape_of
from barymesh.dashboard.marks import DONE, EPOCH, HARM, ROUNDS, marks_of
from barymesh.dashboard.scene import GAP, Barycenter, Floats, NodeTable, Recording, Scene
from barymesh.dashboard.script import LABELS, SCRIPT
from barymesh.dashboard.template import STYLE, TEMPLATE
from barymesh.extras import needs
from barymesh.record import NodeState
from barymesh.viz.bokeh_network import AGES, AGREEMENT, FAR, FRESH, NEAR, SILENT, STALE
from barymesh.viz.bokeh_plots import PAINT
from barymesh.viz.page import EARLY
from barymesh.viz.page import STYLE as PLAIN_STYLE
from barymesh.viz.theme import SUPERSCRIPTS, shown_number

with needs("dashboard"):
    from bokeh.models import ColumnDataSource, CustomJS
    from bokeh.models.ui import Pane
    from jinja2 import Environment

if TYPE_CHECKING:
    from bokeh.document import Document

    from barymesh.dashboard.poller import Poller

# milliseconds between two checks for a new scene
POLL_MILLISECONDS = 500
# rows of the table of nodes, and names in a sentence
MOST_LISTED, MOST_NAMED = 100, 5
# what the shapes of nodes look like in text
SIGNS = {
    NodeState.STARTING: "⬢",
    NodeState.WORKING: "●",
    NodeState.WAITING: "⊕",
    NodeState.CONVERGED: "■",
    NodeState.ASLEEP: "▲",
    NodeState.STUCK: "▼",
    NodeState.CUT_OFF: "⊗",
    NodeState.DEAD: "✕",
    NodeState.ENDED: "◉",
    NodeState.LEFT: "—",
    NodeState.ELSEWHERE: "◆",
    NodeState.UNKNOWN: "★",
}
# which rows of the table come first
URGENT = (NodeState.DEAD, NodeState.STUCK, NodeState.CUT_OFF, NodeState.WAITING, NodeState.ASLEEP, NodeState.UNKNOWN)
# states of nodes that take no part, that are through, and that need an explanation
ABSENT = (NodeState.DEAD, NodeState.LEFT)
THROUGH = (NodeState.CONVERGED, NodeState.ENDED)
SUSPECT = (NodeState.CUT_OFF, NodeState.STUCK)
MARK_WORDS = {
    EPOCH: "a new tree (epoch)", ROUNDS: "rounds begin or end", HARM: "a node fails, leaves or is back",
    DONE: "all have converged",
}  # fmt: skip
STROKES = {"solid": "", "dashed": "5 3", "dotted": "2 2"}


def with_nonce(scripts: str, nonce: str) -> str:
    """The scripts of Bokeh, each of which begins a line, with the nonce that lets the browser run them."""
    return re.sub(r"^(\s*)<script\b", rf'\1<script nonce="{nonce}"', scripts, flags=re.MULTILINE)


_environment = Environment(autoescape=True)
_environment.filters["with_nonce"] = with_nonce
PAGE = _environment.from_string(TEMPLATE)


def make_page(document: Document, poller: Poller) -> None:
    """Fill a document, and keep it up to date; every browser has its own."""
    recording, version = poller.newest()
    shape = shape_of(recording)
    figures = Figures(recording)
    facts = ColumnDataSource(_json(facts_of(recording, recording.newest)), name="facts")
    timeline = ColumnDataSource(_json(timeline_of(recording)), name="timeline")
    # what the user wants to see: the newest scene, or that of a time
    control = ColumnDataSource({"live": [True], "at": [0.0]}, name="control")
    sources = {"facts": facts, "timeline": timeline, "control": control}
    facts.js_on_change("data", CustomJS(code="barymesh.update(cb_obj)"))
    timeline.js_on_change("data", CustomJS(code="barymesh.extend(cb_obj)"))
    ready = CustomJS(args=sources, code="barymesh.begin(facts, timeline, control)")
    # invisible: through it the sources belong to the document, and are kept the same here and in the browser
    carrier = Pane(name="carrier", visible=False)
    carrier.js_on_change("tags", ready)
    for root in (carrier, *figures.roots.values()):
        document.add_root(root)
    document.js_on_event("document_ready", ready)
    document.js_on_event("connection_lost", CustomJS(code="barymesh.lost()"))
    document.config.notify_connection_status = False
    document.config.reconnect_session = False
    document.title = f"{recording.title} – barymesh"
    document.template = PAGE
    document.template_variables.update(
        title_text=recording.title, status=recording.newest.status, figures=figures, plain_style=PLAIN_STYLE,
        style=STYLE, early=EARLY, script=PAINT + LABELS + SCRIPT, scales=_scales(), marks=_mark_key(),
    )  # fmt: skip

    def show() -> None:
        live = bool(control.data["live"][0])
        scene = recording.newest if live else recording.at(float(control.data["at"][0]))
        figures.show(scene, live=live)
        facts.data = _json(facts_of(recording, scene, live=live))

    def follow() -> None:
        nonlocal recording, version
        newest, number = poller.newest()
        if number == version:
            return
        recording, version = newest, number
        if shape_of(recording) != shape:
            # a new page, once
            facts.data = _json({"reload": True})
            document.remove_periodic_callback(polling)
            return
        figures.renew(recording)
        timeline.data = _json(timeline_of(recording))
        if control.data["live"][0]:
            show()

    control.on_change("data", lambda _attribute, _old, _new: show())
    polling = document.add_periodic_callback(follow, POLL_MILLISECONDS)


def _json(values: Mapping[str, Any]) -> dict[str, list[str]]:
    return {"json": [json.dumps(values)]}


def timeline_of(recording: Recording) -> dict[str, Any]:
    """What the slider shows: the times of the scenes, and what happened, by the number of the scene."""
    times = [scene.now if np.isfinite(scene.now) else 0.0 for scene in recording.scenes]
    marks = [{"place": mark.place, "kind": mark.kind, "text": mark.text} for mark in marks_of(recording.scenes)]
    # as the words of the clock go: 12 virtual s, iteration 12
    return {"times": times, "marks": marks, "unit": recording.unit, "running": recording.newest.running}


def answers_of(scene: Scene) -> dict[str, str]:
    """What a person wants to know first about a network, by question."""
    nodes = scene.nodes
    if nodes is None:
        return {}
    states = dict(zip(nodes.graph.names, nodes.states, strict=True))
    absent = [name for name, state in states.items() if state in ABSENT]
    present = len(states) - len(absent)
    done = sum(state in THROUGH for state in states.values())
    if scene.running:
        ending = f"not yet: {done} of {present} nodes"
    else:
        ending = "yes" if done >= present else f"it ended with {done} of {present} nodes"
    suspects = [f"{state}: {_named(some)}" for state in SUSPECT if (some := [n for n in states if states[n] is state])]
    suspects += scene.proofs
    here = np.array([state not in ABSENT for state in nodes.states], dtype=bool)
    known = nodes.errors[here & np.isfinite(nodes.errors)]
    quality = [f"certified gap {scene.counts[GAP]}"] if GAP in scene.counts else _known_gaps(nodes.gaps[here])
    quality += [f"those present within {distance_text(float(known.max()))} of the mean"] if known.size else []
    return {
        "Who is there?": f"{present} of {len(states)} nodes" + (f", without {_named(absent)}" if absent else ""),
        "Is it done?": ending,
        "How good is it?": ", ".join(quality) or "not known yet",
        "Did anybody misbehave?": "; ".join(suspects) or "no sign of it",
    }


def _known_gaps(gaps: Floats) -> list[str]:
    known = gaps[np.isfinite(gaps)]
    which = "all nodes" if known.size == gaps.size else f"{known.size} of {gaps.size} nodes"
    return [f"certified gap {shown_number(float(known.max()), 2)} at {which}"] if known.size else []


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def facts_of(recording: Recording, scene: Scene, *, live: bool = True) -> dict[str, Any]:
    """The texts of the page about a scene, for JSON. ``live``: it is shown because it is the newest."""
    nodes = scene.nodes
    dead = [] if nodes is None else nodes.dead
    alarm = f"Dead: {_named(dead)}. " if dead else ""
    return {
        "title": recording.title,
        "status": ("" if live else "Recorded. ") + alarm + scene.status,
        "running": scene.running,
        "now": scene.now if np.isfinite(scene.now) else 0.0,
        "dead": dead,
        # read aloud when it changes, so not what changes every second
        "news": alarm + ("Running." if scene.running else scene.status),
        "answers": answers_of(scene),
        "counts": dict(scene.counts),
        "signs": [] if nodes is None else [f"{SIGNS[one]} {one}" for one in NodeState if one in nodes.states],
        "rows": [] if nodes is None else _rows(nodes),
        "more": 0 if nodes is None else max(0, nodes.graph.total - MOST_LISTED),
        "alt": {
            "network": "" if nodes is None else _network_words(nodes),
            "barycenter": "" if scene.barycenter is None else _barycenter_words(scene.barycenter),
        },
    }


def _rows(nodes: NodeTable) -> list[list[str]]:
    """The table of nodes: what needs attention first, then those farthest from agreement."""
    names, edges = nodes.graph.names, nodes.graph.edges
    notes = nodes.notes or [""] * len(names)
    # by node, the age of the oldest last message over any of its edges
    oldest = np.full(len(names), -1.0)
    for end in edges.T if len(edges) else ():
        np.maximum.at(oldest, end, np.nan_to_num(nodes.staleness, nan=-1.0))
    order = sorted(
        range(len(names)),
        key=lambda k: (nodes.states[k] not in URGENT, -np.nan_to_num(nodes.errors[k], nan=-1.0), k),
    )
    return [
        [
            names[k], SIGNS[nodes.states[k]], str(nodes.states[k]), distance_text(nodes.errors[k]),
            distance_text(nodes.gaps[k]), _parent(nodes, k), _ago(oldest[k]),
            "; ".join(filter(None, ["masked" if nodes.masked[k] and not notes[k] else "", notes[k]])),
        ]
        for k in order[:MOST_LISTED]
    ]  # fmt: skip


def _parent(nodes: NodeTable, place: int) -> str:
    parent = nodes.parents[place]
    return "" if parent < 0 else "root" if parent == place else nodes.graph.names[parent]


def _ago(age: float) -> str:
    if age < 0:
        return ""
    return "never" if np.isinf(age) else f"{age:.2g} s ago"


def _network_words(nodes: NodeTable) -> str:
    graph = nodes.graph
    shown = "" if len(graph.names) == graph.total else f", {len(graph.names):,} of them drawn"
    links = "" if len(graph.edges) == graph.links else f" ({len(graph.edges):,} drawn)"
    known = nodes.errors[np.isfinite(nodes.errors)]
    far = f" The farthest from the mean is at {distance_text(float(known.max()))}." if known.size else ""
    roots = [graph.names[k] for k in nodes.roots]
    tree = f" The root of the tree is {_named(roots)}." if len(roots) == 1 else ""
    masks = " What nodes report is masked." if nodes.masked.any() else ""
    return f"{graph.total:,} nodes{shown}, {graph.links:,} links{links}.{far}{tree}{masks}"


def _barycenter_words(seen: Barycenter) -> str:
    if seen.support.dimension == 1:
        z = seen.support.points[:, 0]
        middle = float(z @ seen.mean / seen.mean.sum())
        spread = float(np.sqrt(np.maximum(0.0, (z - middle) ** 2 @ seen.mean / seen.mean.sum())))
        return f"The mean of the nodes has its centre at {middle:.4g} and a standard deviation of {spread:.3g}."
    return f"The mean of the nodes, on {seen.support.size:,} points."


def _mark_key() -> list[dict[str, str]]:
    return [
        {"text": words, "colour": MARK_LOOKS[kind][0], "stroke": STROKES[MARK_LOOKS[kind][1]]}
        for kind, words in MARK_WORDS.items()
    ]


def _scales() -> dict[str, Any]:
    """The colours of nodes, a decade each, with the numbers between them, and those of links."""
    # all as powers, which need the same room
    powers = [f"10{str(power).translate(SUPERSCRIPTS)}" for power in range(NEAR, FAR)]
    decades = [{"colour": colour, "label": power} for colour, power in zip(AGREEMENT, powers, strict=True)]
    ramp = list(AGES)[:: len(AGES) // 16]
    return {
        "decades": decades, "far": shown_number(10.0**FAR, 1), "ages": f"linear-gradient(to right, {', '.join(ramp)})",
        "fresh": f"{FRESH:g} s", "stale": f"{STALE:g} s", "silent": f"{SILENT:g} s",
    }  # fmt: skip
