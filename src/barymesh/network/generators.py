"""Networks that are not random, by name. They take a seed, as all generators do, and ignore it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import whole_number
from barymesh.errors import NetworkError
from barymesh.network.topology import Network
from barymesh.resources import memory

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

BYTES_PER_EDGE = 200


def complete(m: int, *, seed: int = 0) -> Network:
    """All nodes are linked to one another."""
    return Network(m, _clique(0, checked_size(m)), name="complete", positions=circle(m))


def cycle(m: int, *, seed: int = 0) -> Network:
    """A ring."""
    nodes = np.arange(checked_size(m))
    return Network(m, distinct_edges(nodes, (nodes + 1) % m), name="cycle", positions=circle(m))


def path(m: int, *, seed: int = 0) -> Network:
    """A line."""
    nodes = np.arange(checked_size(m))
    return Network(m, distinct_edges(nodes[:-1], nodes[1:]), name="path", positions=_lattice(1, m))


def star(m: int, *, seed: int = 0) -> Network:
    """All nodes are linked to node 0 only."""
    others = np.arange(1, checked_size(m))
    positions = np.concatenate([np.zeros((1, 2)), circle(m - 1)])
    return Network(m, distinct_edges(np.zeros_like(others), others), name="star", positions=positions)


def grid(m: int, *, rows: int | None = None, seed: int = 0) -> Network:
    """A rectangle of ``rows`` rows, as square as m allows by default; neighbours lie next to each other."""
    rows, columns = _sides("grid", m, rows)
    nodes = np.arange(m).reshape(rows, columns)
    edges = np.concatenate([distinct_edges(nodes[:, :-1], nodes[:, 1:]), distinct_edges(nodes[:-1], nodes[1:])])
    return Network(m, edges, name=f"grid({rows} x {columns})", positions=_lattice(rows, columns))


def torus(m: int, *, rows: int | None = None, seed: int = 0) -> Network:
    """A grid whose opposite sides are joined."""
    rows, columns = _sides("torus", m, rows)
    nodes = np.arange(m).reshape(rows, columns)
    edges = distinct_edges(np.tile(nodes, 2), np.hstack([np.roll(nodes, -1, axis=0), np.roll(nodes, -1, axis=1)]))
    return Network(m, edges, name=f"torus({rows} x {columns})", positions=_lattice(rows, columns))


def hypercube(m: int, *, seed: int = 0) -> Network:
    """Nodes whose numbers differ in one binary digit are linked; m must be a power of two."""
    dimension = checked_size(m).bit_length() - 1
    if m != 2**dimension:
        raise NetworkError(f"A hypercube has 2, 4, 8, ... nodes, not {m}. Take 'exponential' for any number of nodes.")
    nodes = np.arange(m)[:, None]
    bits = 2 ** np.arange(dimension)
    return Network(m, distinct_edges(nodes + 0 * bits, nodes ^ bits), name="hypercube")


def exponential(m: int, *, seed: int = 0) -> Network:
    """Node i is linked to i + 2^k and i - 2^k modulo m, for all 2^k below m."""
    steps = 2 ** np.arange((checked_size(m) - 1).bit_length())
    nodes = np.arange(m)[:, None]
    return Network(m, distinct_edges(nodes + 0 * steps, (nodes + steps) % m), name="exponential", positions=circle(m))


def barbell(m: int, *, path: int = 0, seed: int = 0) -> Network:
    """Two cliques of half the nodes each, joined by an edge, or by a path of ``path`` nodes in between."""
    between = whole_number("path", path, 0, NetworkError)
    left = (checked_size(m) - between) // 2
    if between and left < 1:
        raise NetworkError(f"A barbell of {m} nodes with path={path} has no room for two cliques; take a shorter path.")
    bridge = np.arange(max(left - 1, 0), left + between)
    right = _clique(left + between, m - left - between)
    edges = np.concatenate([_clique(0, left), distinct_edges(bridge, bridge + 1), right])
    return Network(m, edges, name="barbell" if between == 0 else f"barbell(path={between})")


def checked_size(m: Any) -> int:
    return whole_number("The number of nodes", m, 1, NetworkError)


def require_room(edges: int) -> None:
    memory.require(BYTES_PER_EDGE * edges, f"A network of {edges} edges", "Take a sparser network.")


def _clique(first: int, count: int) -> Indices:
    require_room(count * (count - 1) // 2)
    return first + np.stack(np.triu_indices(count, 1), axis=1)


def distinct_edges(one: Indices, other: Indices) -> Indices:
    """The pairs as edges ``(E, 2)``, without loops and repetitions: small networks meet themselves going round."""
    pairs = np.sort(np.stack([one.ravel(), other.ravel()], axis=1), axis=1)
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)


def _sides(kind: str, m: int, rows: int | None) -> tuple[int, int]:
    """Rows and columns; as square as possible if rows are not given."""
    if rows is not None:
        if checked_size(m) % whole_number("rows", rows, 1, NetworkError):
            raise NetworkError(f"{m} nodes do not fill a {kind} of rows={rows}; rows must divide {m}.")
        return rows, m // rows
    best = max(side for side in range(1, math.isqrt(checked_size(m)) + 1) if m % side == 0)
    if best == 1 and m > 2:
        raise NetworkError(
            f"{m} is a prime number, so a {kind} of {m} nodes would be 1 x {m}: take 'path' or 'cycle', give rows=1, "
            "or change the number of nodes."
        )
    return best, m // best


def circle(m: int) -> Floats:
    """m points evenly on the unit circle, ``(m, 2)``."""
    angle = 2 * np.pi * np.arange(m) / max(m, 1)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _lattice(rows: int, columns: int) -> Floats:
    """Points in rows and columns, row 0 on top, ``(rows * columns, 2)``."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    return np.stack([column, rows - 1 - row], axis=1) / max(rows - 1, columns - 1, 1)
