"""A self-healing spanning tree that adds up contributions and passes targets on."""

from __future__ import annotations

from barymesh.decentralized.tree.spanning_tree import PATIENCE, SpanningTree
from barymesh.decentralized.tree.state import TreeState

__all__ = ["PATIENCE", "SpanningTree", "TreeState"]
