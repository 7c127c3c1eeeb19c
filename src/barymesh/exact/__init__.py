"""The exact solver, for measures on one machine or in several places, and the certificate of its result."""

from __future__ import annotations

from barymesh.exact.certificate import Certificate, certify
from barymesh.exact.solver import Iteration, Solution, solve

__all__ = ["Certificate", "Iteration", "Solution", "certify", "solve"]
