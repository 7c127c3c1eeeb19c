"""The page: its text around the figures, and how both are updated from the scenes."""

# ruff: noqa: RUF001 (dashes are meant)
from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from barymesh.dashboard.figures import Figures, distance_text, shape_of, style
from barymesh.dashboard.scene import GAP, Barycenter, NodeTable, Scene
from barymesh.dashboard.template import SCRIPT, STYLE, TEMPLATE
from barymesh.extras import needs
from barymesh.record import NodeState
from barymesh.viz.bokeh_network import AGES, AGREEMENT, FAR, FRESH, NEAR, SILENT, STALE
from barymesh.viz.bokeh_plots import PAINT
from barymesh.viz.page import EARLY
from barymesh.viz.page import STYLE as PLAIN_STYLE
from barymesh.viz.theme import shown_number

with needs("dashboard"):
    from bokeh.models import ColumnDataSource, CustomJS
    from bokeh.models.ui import Pane
    from jinja2 import Environment

if TYPE_CHECKING:
    from bokeh.document import Document

    from barymesh.dashboard.poller import ScenePoller

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
DONE = (NodeState.CONVERGED, NodeState.ENDED)
SUSPECT = (NodeState.CUT_OFF, NodeState.STUCK)
STROKES = {"solid": "", "dashed": "7 4", "dotdash": "8 3 2 3", "dotted": "2 3"}


def with_nonce(scripts: str, nonce: str) -> str:
    """The scripts of Bokeh, each of which begins a line, with the nonce that lets the browser run them."""
    return re.sub(r"^(\s*)<script\b", rf'\1<script nonce="{nonce}"', scripts, flags=re.MULTILINE)


_environment = Environment(autoescape=True)
_environment.filters["with_nonce"] = with_nonce
PAGE = _environment.from_string(TEMPLATE)


def make_page(document: Document, poller: ScenePoller) -> None:
    """Fill a document, and keep it up to date; every browser has its own."""
    seen, version = poller.newest()
    shape = shape_of(seen)
    figures = Figures(seen)
    facts = ColumnDataSource({"json": [json.dumps(facts_of(seen))]}, name="facts")
    facts.js_on_change("data", CustomJS(code="barymesh.update(cb_obj)"))
    control = ColumnDataSource({"paused": [False]}, name="control")
    ready = CustomJS(args={"facts": facts, "control": control}, code="barymesh.begin(facts, control)")
    # invisible: through it the sources belong to the document, and are kept the same here and in the browser
    carrier = Pane(name="carrier", visible=False)
    carrier.js_on_change("tags", ready)
    for root in (carrier, *figures.roots.values()):
        document.add_root(root)
    document.js_on_event("document_ready", ready)
    document.js_on_event("connection_lost", CustomJS(code="barymesh.lost()"))
    document.config.notify_connection_status = False
    document.config.reconnect_session = False
    document.title = f"{seen.title} – barymesh"
    document.template = PAGE
    document.template_variables.update(
        scene=seen, figures=figures, legend=_legend(seen), plain_style=PLAIN_STYLE, style=STYLE,
        early=EARLY, script=PAINT + SCRIPT, ramps=_ramps(),
    )  # fmt: skip
    shown = version

    def follow() -> None:
        nonlocal shown
        scene, newest = poller.newest()
        if newest == shown or control.data["paused"][0]:
            return
        shown = newest
        if shape_of(scene) != shape:
            # a new page, once
            facts.data = {"json": [json.dumps({"reload": True})]}
            document.remove_periodic_callback(polling)
            return
        figures.show(scene)
        facts.data = {"json": [json.dumps(facts_of(scene))]}

    polling = document.add_periodic_callback(follow, POLL_MILLISECONDS)


def answers_of(scene: Scene) -> dict[str, str]:
    """What a person wants to know first about a network, by question."""
    nodes = scene.nodes
    if nodes is None:
        return {}
    states = dict(zip(nodes.names, nodes.states, strict=True))
    absent = [name for name, state in states.items() if state in ABSENT]
    present = len(states) - len(absent)
    done = sum(state in DONE for state in states.values())
    if scene.running:
        ending = f"not yet: {done} of {present} nodes"
    else:
        ending = "yes" if done >= present else f"it ended with {done} of {present} nodes"
    suspects = [f"{state}: {_named(some)}" for state in SUSPECT if (some := [n for n in states if states[n] is state])]
    here = np.array([state not in ABSENT for state in nodes.states], dtype=bool)
    known = nodes.errors[here & np.isfinite(nodes.errors)]
    quality = [f"certified gap {scene.counts[GAP]}"] if GAP in scene.counts else []
    quality += [f"those present within {distance_text(float(known.max()))} of the mean"] if known.size else []
    return {
        "Who is there?": f"{present} of {len(states)} nodes" + (f", without {_named(absent)}" if absent else ""),
        "Is it done?": ending,
        "How good is it?": ", ".join(quality) or "not known yet",
        "Did anybody misbehave?": "; ".join(suspects) or "no sign of it",
    }


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def facts_of(scene: Scene) -> dict[str, Any]:
    """The texts of the page, for JSON."""
    nodes = scene.nodes
    dead = [] if nodes is None else nodes.dead
    alarm = f"Dead: {_named(dead)}. " if dead else ""
    return {
        "title": scene.title,
        "status": alarm + scene.status,
        "running": scene.running,
        "dead": dead,
        # read aloud when it changes, so not what changes every second
        "news": alarm + ("Running." if scene.running else scene.status),
        "answers": answers_of(scene),
        "counts": dict(scene.counts),
        "signs": [] if nodes is None else [f"{SIGNS[one]} {one}" for one in NodeState if one in nodes.states],
        "rows": [] if nodes is None else _rows(nodes),
        "more": 0 if nodes is None else max(0, nodes.total - MOST_LISTED),
        "alt": {
            "network": "" if nodes is None else _network_words(nodes),
            "barycenter": "" if scene.barycenter is None else _barycenter_words(scene.barycenter),
        },
    }


def _rows(nodes: NodeTable) -> list[list[str]]:
    """The table of nodes: what needs attention first, then those farthest from agreement."""
    notes = nodes.notes or [""] * len(nodes.names)
    # by node, the age of the oldest last message over any of its edges
    oldest = np.full(len(nodes.names), -1.0)
    for end in nodes.edges.T if len(nodes.edges) else ():
        np.maximum.at(oldest, end, np.nan_to_num(nodes.staleness, nan=-1.0))
    order = sorted(
        range(len(nodes.names)),
        key=lambda k: (nodes.states[k] not in URGENT, -np.nan_to_num(nodes.errors[k], nan=-1.0), k),
    )
    return [
        [
            nodes.names[k], SIGNS[nodes.states[k]], str(nodes.states[k]), distance_text(nodes.errors[k]),
            _ago(oldest[k]), notes[k],
        ]
        for k in order[:MOST_LISTED]
    ]  # fmt: skip


def _ago(age: float) -> str:
    if age < 0:
        return ""
    return "never" if np.isinf(age) else f"{age:.2g} s ago"


def _network_words(nodes: NodeTable) -> str:
    drawn = "" if len(nodes.names) == nodes.total else f", {len(nodes.names):,} of them drawn"
    links = "" if len(nodes.edges) == nodes.links else f" ({len(nodes.edges):,} drawn)"
    known = nodes.errors[np.isfinite(nodes.errors)]
    far = f" The farthest from the mean is at {distance_text(float(known.max()))}." if known.size else ""
    return f"{nodes.total:,} nodes{drawn}, {nodes.links:,} links{links}.{far}"


def _barycenter_words(seen: Barycenter) -> str:
    if seen.support.dimension == 1:
        z = seen.support.points[:, 0]
        middle = float(z @ seen.mean / seen.mean.sum())
        spread = float(np.sqrt(np.maximum(0.0, (z - middle) ** 2 @ seen.mean / seen.mean.sum())))
        return f"The mean of the nodes has its centre at {middle:.4g} and a standard deviation of {spread:.3g}."
    return f"The mean of the nodes, on {seen.support.size:,} points."


def _legend(scene: Scene) -> list[dict[str, str]]:
    """One entry a run, if there are several."""
    if len(scene.runs) < 2:
        return []
    looks = [style(number) for number in range(len(scene.runs))]
    return [
        {"name": name, "colour": f"var(--c-{colour[1:]}, {colour})", "stroke": STROKES[dash]}
        for name, (colour, dash) in zip(scene.runs, looks, strict=True)
    ]


def _ramps() -> dict[str, Any]:
    def gradient(colours: Any) -> str:
        return f"linear-gradient(to right, {', '.join(list(colours)[:: len(colours) // 16])})"

    return {
        "agreement": gradient(AGREEMENT), "ages": gradient(AGES), "near": shown_number(NEAR, 1), "far": f"{FAR:g}",
        "fresh": f"{FRESH:g} s", "stale": f"{STALE:g} s", "silent": f"{SILENT:g} s",
    }  # fmt: skip
