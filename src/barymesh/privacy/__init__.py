"""Differential privacy for the data of a node: they are used once, noise is added once, and all that follows, however
long it runs, is made from that one release. See docs/explanation/privacy.md."""

from __future__ import annotations

from barymesh.privacy.release import Release, private_measure

__all__ = ["Release", "private_measure"]
