"""The exact solver for all measures on one machine, and the certificate of its result."""

from __future__ import annotations

from barymesh.exact.certificate import Certificate, certify
from barymesh.exact.solver import Iteration, Solution, solve

__all__ = ["Certificate", "Iteration", "Solution", "certify", "solve"]
