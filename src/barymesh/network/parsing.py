"""Networks from what users pass: a name, a graph, a matrix, a file, a list of pairs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import as_floats, is_array, whole_number
from barymesh.errors import NetworkError
from barymesh.network import generators, random_generators
from barymesh.network.edge_file import SUFFIXES, read_edges
from barymesh.network.topology import Network, check_edges, listed, require_size
from barymesh.specification import checked_spec

Floats = NDArray[np.float64]

GENERATORS: dict[str, Callable[..., Network]] = {
    make.__name__: make
    for make in (
        generators.complete,
        generators.cycle,
        generators.path,
        generators.star,
        generators.grid,
        generators.torus,
        generators.hypercube,
        generators.exponential,
        generators.barbell,
        random_generators.erdos_renyi,
        random_generators.random_regular,
        random_generators.watts_strogatz,
        random_generators.barabasi_albert,
        random_generators.random_geometric,
        random_generators.tree,
    )
}
KINDS = "a name, a Network, a networkx.Graph, a matrix, a file of edges, or a list of pairs"
# how far, relative to the largest entry, a matrix may be from symmetric, and a Laplacian's rows from summing to 0
ROUNDING = 1e-9


def as_network(value: Any, size: int, seed: int = 0) -> Network:
    """A network with one node for each measure.

    Parameters
    ----------
    value : Network, str, graph, array, path or list
        One of

        - a Network;
        - a name, such as "cycle", with arguments as in "watts_strogatz:k=6,p=0.2";
        - an undirected ``networkx.Graph``, its nodes numbered in the graph's own order unless they are 0..m-1;
        - an adjacency or Laplacian matrix ``(m, m)``, as a NumPy or SciPy sparse array;
        - a file of edges (.csv, .txt, .edges): two nodes and perhaps a weight a line, # for comments;
        - a list of pairs of nodes, or of triples with a weight.
    size : int
        The number of measures.
    seed : int, default=0
        For networks that are drawn at random.

    Returns
    -------
    Network
        With ``size`` nodes, connected.

    Examples
    --------
    >>> from barymesh.network import as_network
    >>> as_network("grid:rows=2", 6)
    Network(grid(2 x 3): 6 nodes, 7 edges)
    >>> as_network([(0, 1), (1, 2)], 3)
    Network(list of edges: 3 nodes, 2 edges)
    """
    whole_number("The number of measures", size, 1, NetworkError)
    whole_number("seed", seed, None, NetworkError)
    networkx = sys.modules.get("networkx")
    if isinstance(value, Network):
        network = value
    elif isinstance(value, Path) or (isinstance(value, str) and Path(value).suffix.lower() in SUFFIXES):
        network = read_edges(Path(value), size)
    elif isinstance(value, str):
        network = _from_name(value, size, seed)
    # a graph can exist only if networkx has been imported
    elif networkx is not None and isinstance(value, networkx.Graph):
        network = _from_graph(value)
    elif hasattr(value, "toarray") or is_array(value):
        network = _from_matrix(value)
    elif isinstance(value, Iterable):
        network = _from_pairs(value, size)
    else:
        raise NetworkError(f"The network is {value!r}, which is {type(value).__name__}. Give {KINDS}.")
    require_size(network.size, size, f"The network {network.name}")
    return network


def network_arguments(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a generator and its arguments, such as "watts_strogatz:k=6", if there is such a generator."""
    name, arguments = checked_spec(text, GENERATORS, "network", NetworkError, supplied=("m", "seed"))
    for key, value in arguments.items():
        if not isinstance(value, int | float):
            raise NetworkError(f"{text!r}: {key} is {value!r}, not a number. Write {name}:{key}=<number>.")
    return name, arguments


def _from_name(text: str, size: int, seed: int) -> Network:
    name, arguments = network_arguments(text)
    return GENERATORS[name](size, **arguments, seed=seed)


def _from_graph(graph: Any) -> Network:
    if graph.is_multigraph():
        raise NetworkError("The graph is a multigraph. Join parallel edges, for instance with networkx.Graph(graph).")
    if graph.is_directed():
        one_way = [f"({a}, {b})" for a, b in graph.edges if not graph.has_edge(b, a)]
        raise NetworkError(
            f"The graph is directed; messages must go both ways. Edges one way only: {listed(one_way) or 'none'}. "
            "Use graph.to_undirected() if every edge is meant both ways."
        )
    names = list(graph.nodes)
    if not names:
        raise NetworkError("The graph is empty: give one node for each measure.")
    if set(names) == set(range(len(names))):
        names = list(range(len(names)))
    number = {name: k for k, name in enumerate(names)}
    edges = np.array([(number[a], number[b]) for a, b in graph.edges], dtype=np.intp).reshape(-1, 2)
    given = [weight for _, _, weight in graph.edges.data("weight", default=1)]
    weights = as_floats(given, "The edge attribute 'weight'", NetworkError)
    check_edges(names, edges, weights)
    places = [graph.nodes[name].get("pos") for name in names]
    # networkx has no rule for what "pos" is: only pairs of coordinates are taken
    drawn = all(place is not None and np.shape(place) == (2,) for place in places)
    return Network(len(names), edges, weights, name=graph.name or "graph", positions=places if drawn else None)


def _from_matrix(given: Any) -> Network:
    """Sparse or dense; an adjacency matrix A, or a Laplacian D - A."""
    from scipy.sparse import csr_array, issparse, triu

    if not issparse(given):
        given = as_floats(given, "The matrix of the network", NetworkError)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise NetworkError(
            f"The matrix of the network has shape {given.shape}; it must be square. Give edges as a list of pairs."
        )
    if given.shape[0] == 0:
        raise NetworkError("The matrix of the network is empty: give one row for each measure.")
    if given.dtype.kind not in "biuf":
        raise NetworkError(f"The matrix of the network is of type {given.dtype}; it must hold real numbers.")
    # a copy, because a sparse matrix tidies itself up in place
    matrix = csr_array(given, dtype=float, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    _refuse_entries(
        matrix, ~np.isfinite(matrix.data), "has entries that are not finite", "Put 0 where there is no edge"
    )
    slack = ROUNDING * np.abs(matrix.data).max(initial=0.0)
    skew = csr_array(matrix - matrix.T)
    _refuse_entries(
        skew, np.abs(skew.data) > slack, "is not symmetric; it differs from its transpose", "Use (A + A.T) / 2"
    )
    upper = triu(matrix, 1).tocoo()
    edges, weights = np.stack([upper.row, upper.col], axis=1), upper.data
    negative = weights < 0
    if negative.any():
        sums = matrix.sum(axis=1)
        unbalanced = np.flatnonzero(np.abs(sums) > slack * len(sums))
        if unbalanced.size or not negative.all():
            found = listed(
                f"({i}, {j}) has {w:g}" for (i, j), w in zip(edges[negative], weights[negative], strict=True)
            )
            fault = f"row {unbalanced[0]} sums to {sums[unbalanced[0]]:g}" if unbalanced.size else "some are positive"
            raise NetworkError(
                f"The matrix of the network has negative entries: {found}. As an adjacency matrix its weights must be "
                f"positive; as a Laplacian, rows sum to 0 and no entry off the diagonal is positive, but {fault}."
            )
        return Network(matrix.shape[0], edges, -weights, name="laplacian matrix")
    loops = np.flatnonzero(matrix.diagonal())
    if loops.size:
        raise NetworkError(
            f"The matrix of the network has self-loops, entries on the diagonal, at nodes {listed(loops)}. Set them to "
            "0; a Laplacian has negative entries off the diagonal."
        )
    return Network(matrix.shape[0], edges, weights, name="adjacency matrix")


def _refuse_entries(matrix: Any, bad: NDArray[np.bool_], what: str, remedy: str) -> None:
    entries = matrix.tocoo()
    if bad.any():
        places = zip(entries.row[bad], entries.col[bad], entries.data[bad], strict=True)
        found = listed(f"({i}, {j}): {value:g}" for i, j, value in places)
        raise NetworkError(f"The matrix of the network {what}, at {found}. {remedy}.")


def _from_pairs(pairs: Iterable[Any], size: int) -> Network:
    rows = [tuple(pair) if isinstance(pair, Iterable) else (pair,) for pair in pairs]
    if not rows and size > 1:
        raise NetworkError(
            f"The list of edges is empty, but {size} measures need a connected network. "
            "Give pairs of nodes, or a name such as 'cycle'."
        )
    for row in rows:
        if len(row) not in (2, 3) or not all(isinstance(node, int | np.integer) for node in row[:2]):
            raise NetworkError(
                f"The list of edges has {row}; give pairs of node numbers, or triples with a weight. A matrix must be "
                "a NumPy or SciPy array."
            )
    weights = [row[2] if len(row) == 3 else 1.0 for row in rows]
    nodes = max((max(row[:2]) for row in rows), default=0) + 1
    # a negative number is no matter of size: Network names the edge
    require_size(nodes if nodes > 0 else size, size, "The list of edges")
    return Network(size, [row[:2] for row in rows], weights, name="list of edges")
