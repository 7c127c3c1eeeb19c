"""Accelerated block descent on stale information: ASBCDS and PASBCDS, solvers for any smooth convex block problem.

They are the general methods behind A2DWB, the paper's algorithm for barycenters, and need nothing of barymesh's
measures or networks.
"""

from __future__ import annotations

from barymesh.decentralized.baselines.block_descent import BlockDescentResult, asbcds, pasbcds
from barymesh.decentralized.baselines.steps import theoretical_step

__all__ = ["BlockDescentResult", "asbcds", "pasbcds", "theoretical_step"]
