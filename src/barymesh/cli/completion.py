"""What the shell offers on Tab, once ``barymesh --install-completion`` has been run."""

from __future__ import annotations

from barymesh.cost import EUCLIDEAN, SQUARED
from barymesh.decentralized import NETWORK_METHODS
from barymesh.io.files import KINDS
from barymesh.problem import PRECISIONS

# the usual ones of all the metrics that are taken
COSTS = (SQUARED, EUCLIDEAN, "cityblock", "chebyshev", "cosine")


def costs(incomplete: str) -> list[str]:
    """Names of costs."""
    return [name for name in COSTS if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """What bare arrays can be."""
    return [name for name in KINDS if name.startswith(incomplete)]


def precisions(incomplete: str) -> list[str]:
    """Kinds of arithmetic."""
    return [name for name in PRECISIONS if name.startswith(incomplete)]


def methods(incomplete: str) -> list[str]:
    """Methods joined by commas, the last of which is being written; none twice."""
    *before, last = incomplete.split(",")
    left = [name for name in NETWORK_METHODS if name.startswith(last) and name not in before]
    return [",".join([*before, name]) for name in left]
