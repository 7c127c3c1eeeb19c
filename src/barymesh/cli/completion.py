"""What the shell offers on Tab, once ``barymesh --install-completion`` has been run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barymesh.cost import EUCLIDEAN, SQUARED
from barymesh.method_names import NETWORK_METHODS

# the usual ones of all the metrics that are taken
COSTS = (SQUARED, EUCLIDEAN, "cityblock", "chebyshev", "cosine")


def one_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    """A completion that offers these names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def methods(incomplete: str) -> list[str]:
    """Methods joined by commas, the last of which is being written; none twice."""
    *before, last = incomplete.split(",")
    left = [name for name in NETWORK_METHODS if name.startswith(last) and name not in before]
    return [",".join([*before, name]) for name in left]
