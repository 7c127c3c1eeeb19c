"""What a node is doing, from the facts of its status: for programs (``node_state``) and in words (``state_text``)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from barymesh.record import NodeState
from barymesh.transport.subscriber import LinkState

Facts = Mapping[str, Any]
# states in which somebody has to do something
TROUBLE = (NodeState.STUCK, NodeState.CUT_OFF, NodeState.DEAD)
_ABSENT = (LinkState.NEVER, LinkState.LOST)
_OTHER = (LinkState.OTHER_NETWORK, LinkState.OTHER_VERSION)


def node_state(facts: Facts) -> NodeState:
    """The state of the node with these facts."""
    if not facts.get("healthy"):
        return NodeState.STUCK
    if not facts.get("ready"):
        return NodeState.STARTING
    if _links(facts, LinkState.REFUSED, LinkState.WRONG_KEY):
        return NodeState.CUT_OFF
    if facts.get("stopped"):
        return NodeState.CONVERGED
    return NodeState.WAITING if _links(facts, *_ABSENT, *_OTHER) else NodeState.WORKING


def state_text(facts: Facts) -> str:
    """The same for people: whom the node waits for, who has cut it off, and since when; and with masks, why it does not
    contribute to sums, or who is not in them."""
    state = node_state(facts)
    if state is NodeState.STUCK:
        return "stuck: it does not act any more"
    parts = []
    if state in (NodeState.CONVERGED, NodeState.STARTING, NodeState.WORKING):
        parts.append(str(state))
    elif facts.get("stopped"):
        parts.append("converged")
    for text, kinds in (("cut off by", LinkState.REFUSED), ("wrong key at", LinkState.WRONG_KEY)):
        parts += [f"{text} {name} since {clock(link['since'])}" for name, link in _links(facts, kinds).items()]
    absent = _links(facts, *_ABSENT)
    if absent and facts.get("ready") and not facts.get("stopped"):
        parts.append(f"waiting for {', '.join(absent)}")
    parts += [f"{name} {link['state']}" for name, link in _links(facts, *_OTHER).items()]
    for name, link in _links(facts, LinkState.CUT_OFF).items():
        until = f" until {clock(link['cut_off_until'])}" if link.get("cut_off_until") else ""
        parts.append(f"without {name}, cut off since {clock(link['since'])}{until}")
    masks = facts.get("masks") or {}
    if masks.get("why_not"):
        parts.append(f"does not contribute: {masks['why_not']}")
    elif masks.get("absent"):
        parts.append(f"sums without {', '.join(masks['absent'])}")
    parts += [f"{'LIES' if one['proof'] else 'ask'}: {one['text']}" for one in facts.get("doubts", ())]
    return ", ".join(parts)


def is_trouble(facts: Facts) -> bool:
    """Whether somebody has to do something."""
    proof = any(one["proof"] for one in facts.get("doubts", ()))
    return node_state(facts) in TROUBLE or bool(_links(facts, LinkState.CUT_OFF)) or proof


def clock(seconds: float) -> str:
    """A time of the wall clock: the hour, with the date if it is not today."""
    then = datetime.fromtimestamp(seconds)
    return f"{then:%H:%M}" if then.date() == datetime.now().date() else f"{then:%Y-%m-%d %H:%M}"


def _links(facts: Facts, *states: LinkState) -> dict[str, Mapping[str, Any]]:
    return {name: link for name, link in facts.get("links", {}).items() if link["state"] in states}
