"""Random networks, by name. Each is drawn again until it is connected."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import real_number, whole_number
from barymesh.errors import NetworkError
from barymesh.network.generators import checked_size, circle, distinct_edges, require_room
from barymesh.network.topology import Network, parts
from barymesh.random import addressed_generator

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

TRIES = 1000
# a draw with more isolated nodes comes from a family that practically never connects
MOST_ISOLATED = 50


def erdos_renyi(m: int, *, p: float | None = None, seed: int = 0) -> Network:
    """Every pair is linked with probability p, independently, and the outcome is connected. Without p,
    min(1, 2 log(m) / m)."""
    pairs = checked_size(m) * (m - 1) // 2
    chance = min(1.0, 2 * math.log(m) / m) if p is None else _share("p", p)

    def draw(attempt: int) -> tuple[Indices, Floats | None]:
        rng = addressed_generator(seed, 0, attempt)
        count = int(rng.binomial(pairs, chance))
        require_room(count)
        rank = rng.choice(pairs, count, replace=False, shuffle=False) if pairs else np.arange(0)
        # pairs i < j in the order of j: pair (i, j) has rank j (j - 1) / 2 + i
        larger = ((1 + np.sqrt(1 + 8 * rank)) / 2).astype(np.intp)
        return np.stack([rank - larger * (larger - 1) // 2, larger], axis=1), None

    remedy = "Take a larger p (above log(m) / m most draws connect)"
    return _first_connected(m, f"erdos_renyi(p={chance:.4g})", draw, remedy)


def random_regular(m: int, *, degree: int = 4, seed: int = 0) -> Network:
    """Drawn from the graphs in which every node has ``degree`` neighbours."""
    import networkx

    whole_number("degree", degree, 0, NetworkError)
    if degree >= checked_size(m) or m * degree % 2:
        raise NetworkError(
            f"There is no network of {m} nodes that have {degree} neighbours each: degree must be below the number of "
            "nodes, and one of the two even. Change degree, or take 'complete'."
        )
    # drawing gets slow when few graphs are left; their complements are many
    dense = 2 * degree >= m

    def draw(attempt: int) -> tuple[Indices, Floats | None]:
        graph = networkx.random_regular_graph(m - 1 - degree if dense else degree, m, seed=_word(seed, attempt))
        return _edges_of(networkx.complement(graph) if dense else graph), None

    return _first_connected(m, f"random_regular(degree={degree})", draw, "Take a larger degree")


def watts_strogatz(m: int, *, k: int = 4, p: float = 0.1, seed: int = 0) -> Network:
    """A ring in which each node is linked to the k nearest, and each edge is moved elsewhere with probability p."""
    import networkx

    if whole_number("k", k, 2, NetworkError) >= checked_size(m) or k % 2:
        raise NetworkError(
            f"There is no ring of {m} nodes linked to the k={k} nearest: k must be even and below the number of "
            "nodes. Change k, or take 'complete'."
        )
    chance = _share("p", p)

    def draw(attempt: int) -> tuple[Indices, Floats | None]:
        return _edges_of(networkx.watts_strogatz_graph(m, k, chance, seed=_word(seed, attempt))), circle(m)

    return _first_connected(m, f"watts_strogatz(k={k}, p={chance:g})", draw, "Take a larger k or a smaller p")


def barabasi_albert(m: int, *, k: int = 2, seed: int = 0) -> Network:
    """Grown node by node; a new node links to k old ones, those with many neighbours being more likely."""
    import networkx

    if whole_number("k", k, 1, NetworkError) >= checked_size(m):
        raise NetworkError(
            f"{m} nodes are too few for each new one to link to k={k} old ones: k must be below the number of nodes. "
            "Change k, or take 'complete'."
        )
    graph = networkx.barabasi_albert_graph(m, k, seed=_word(seed))
    return Network(m, _edges_of(graph), name=f"barabasi_albert(k={k})")


def random_geometric(m: int, *, radius: float | None = None, seed: int = 0) -> Network:
    """Uniform points in the unit square, linked if at most ``radius`` apart. Without radius, sqrt(2 log(m) / (pi m)):
    about 2 log(m) neighbours each."""
    from scipy.spatial import cKDTree

    checked_size(m)
    reach = math.sqrt(2 * math.log(m) / (math.pi * m)) if radius is None else real_number(radius)
    if reach is None or reach < 0:
        raise NetworkError(f"radius is {radius!r}; it must be a finite number, 0 or more.")

    def draw(attempt: int) -> tuple[Indices, Floats | None]:
        points = addressed_generator(seed, 0, attempt).random((m, 2))
        return cKDTree(points).query_pairs(reach, output_type="ndarray").astype(np.intp), points

    return _first_connected(m, f"random_geometric(radius={reach:.4g})", draw, "Take a larger radius")


def tree(m: int, *, branching: int | None = None, seed: int = 0) -> Network:
    """A random tree, all labelled trees being equally likely; or a balanced one in which nodes have ``branching``
    children."""
    import networkx

    if branching is None:
        return Network(m, _edges_of(networkx.random_labeled_tree(checked_size(m), seed=_word(seed))), name="tree")
    children = np.arange(1, checked_size(m))
    parents = (children - 1) // whole_number("branching", branching, 1, NetworkError)
    return Network(m, distinct_edges(parents, children), name=f"tree(branching={branching})")


def _first_connected(m: int, name: str, draw: Callable[[int], tuple[Indices, Floats | None]], remedy: str) -> Network:
    """The first connected of the draws 0, 1, 2, ..., each of them edges ``(E, 2)`` and positions ``(m, 2)`` or None."""
    for attempt in range(TRIES):
        edges, positions = draw(attempt)
        if len(edges) >= m - 1 and len(parts(m, edges)) == 1:
            return Network(m, edges, name=name, positions=positions)
        if np.count_nonzero(np.bincount(edges.ravel(), minlength=m) == 0) > MOST_ISOLATED:
            break
    raise NetworkError(f"No connected {name} with {m} nodes in {attempt + 1} draws. {remedy}, or another seed.")


def _share(name: str, value: Any) -> float:
    share = real_number(value)
    if share is None or not 0 <= share <= 1:
        raise NetworkError(f"{name} is {value!r}; it must be a probability, between 0 and 1.")
    return share


def _word(seed: int, attempt: int = 0) -> int:
    """A seed for networkx, for any whole seed."""
    return int(addressed_generator(seed, 0, attempt).integers(2**63))


def _edges_of(graph: Any) -> Indices:
    return np.array(graph.edges, dtype=np.intp).reshape(-1, 2)
