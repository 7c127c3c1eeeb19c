"""The node oracle: log-sum-exp values and softmax gradients over a batch of nodes."""

from __future__ import annotations

from barymesh.oracle.base import Oracle
from barymesh.oracle.groups import build_oracle

__all__ = ["Oracle", "build_oracle"]
