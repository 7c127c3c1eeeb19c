"""The masks of a run in which all nodes have one owner: in a simulation, in processes, or on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barymesh.options import RunOptions

if TYPE_CHECKING:
    from barymesh.decentralized.masks.streams import Masks


def owned_masks(options: RunOptions, nodes: int, seed: object, secret: bytes | None = None) -> Masks | None:
    """None if the options want none. ``secret``: what fresh numbers come from, where processes may begin anew."""
    if not options.masks:
        return None
    # the package that it needs is optional
    from barymesh.decentralized.masks.streams import Masks

    return Masks.of_one_owner(nodes, seed, options.method, secret=secret)
