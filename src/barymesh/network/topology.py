"""The communication network: which nodes exchange messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, whole_number
from barymesh.errors import NetworkError

if TYPE_CHECKING:
    from barymesh.viz.figure import Figure

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# how many edges, nodes or parts an error message lists
LISTED = 5
# up to this many nodes the spring layout is a matter of seconds
SPRING = 500
# breadth-first searches for the centre: as many as follow so many edges in all, but at least so many
SEARCHED_EDGES, SEARCHES = 1_000_000, 32
# so many rows of distances are held at a time
ROWS = 256


class Network:
    """An undirected, connected, simple graph on nodes 0..m-1.

    Parameters
    ----------
    size : int
        The number of nodes, m.
    edges : array (E, 2)
        Pairs of nodes that exchange messages, each pair once.
    weights : array (E,), optional
        Positive weights of the edges; by default every edge weighs 1.
    name : str, default="custom"
        What to call it.
    positions : array (m, 2), optional
        Where to draw the nodes.
    connected : bool, default=True
        Whether a network that is not connected is refused.

    Attributes
    ----------
    edges : array (E, 2)
        Sorted, i < j in each.
    weights : array (E,) or None
        None if every edge weighs 1.
    neighbours, offsets : array (2E,) and (m + 1,)
        Node i receives from ``neighbours[offsets[i]:offsets[i + 1]]``, in ascending order. So a position e in
        ``neighbours`` is a directed edge, sorted by receiver.
    reverse : array (2E,)
        ``reverse[e]`` is the position of the same edge in the other direction.

    Examples
    --------
    >>> from barymesh.network import Network
    >>> network = Network(4, [(0, 1), (1, 2), (2, 3)])
    >>> network, network.diameter, network.neighbours_of(1)
    (Network(custom: 4 nodes, 3 edges), 3, array([0, 2]))
    """

    def __init__(
        self,
        size: int,
        edges: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        name: str = "custom",
        positions: ArrayLike | None = None,
        connected: bool = True,
    ) -> None:
        self.size = whole_number("The number of nodes", size, 1, NetworkError)
        self.name = name
        pairs = _as_pairs(edges)
        heavy = None if weights is None else as_floats(weights, "The array of edge weights", NetworkError)
        check_edges(range(self.size), pairs, heavy, connected)
        pairs = np.sort(pairs, axis=1)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        self.edges: Indices = pairs[order]
        self.weights: Floats | None = None if heavy is None or (heavy == 1).all() else heavy[order]
        self._given_positions = (
            None if positions is None else np.array(as_floats(positions, "The positions", NetworkError))
        )
        if self._given_positions is not None and self._given_positions.shape != (self.size, 2):
            raise NetworkError(f"The positions have shape {self._given_positions.shape}; give ({self.size}, 2).")

        receivers, senders = _both_ways(self.edges)
        order = np.lexsort((senders, receivers))
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        self.neighbours: Indices = senders[order]
        self.reverse: Indices = place[(order + len(self.edges)) % max(order.size, 1)]
        # hops to all nodes, by the node they are counted from
        self._hops: dict[int, Floats] = {}
        counts = np.bincount(receivers, minlength=self.size)
        self.offsets: Indices = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        for array in (self.edges, self.weights, self.neighbours, self.reverse, self.offsets):
            if array is not None:
                # engines and threads share these
                array.flags.writeable = False

    def among(self, present: NDArray[np.bool_]) -> Network:
        """The part of the network between some nodes, numbered anew. It need not be connected.

        Parameters
        ----------
        present : array (m,) of bool
            Whether each node is kept.

        Returns
        -------
        Network
            The part.
        """
        if present.all():
            return self
        number = np.cumsum(present) - 1
        kept = present[self.edges].all(axis=1)
        positions = None if self._given_positions is None else self._given_positions[present]
        weights = None if self.weights is None else self.weights[kept]
        return Network(
            int(present.sum()), number[self.edges[kept]], weights, name=self.name, positions=positions, connected=False
        )

    def neighbours_of(self, node: int) -> Indices:
        """The neighbours of a node, in the order of their numbers.

        Parameters
        ----------
        node : int
            Its number.

        Returns
        -------
        array of int
            Their numbers.
        """
        return self.neighbours[self.offsets[node] : self.offsets[node + 1]]

    @cached_property
    def degrees(self) -> Floats:
        """W_ii = sum of the weights of node i's edges, ``(m,)``; without weights, the number of its neighbours."""
        if self.weights is None:
            return np.diff(self.offsets).astype(float)
        return np.bincount(self.edges.ravel(), np.repeat(self.weights, 2), self.size).astype(float)

    @cached_property
    def laplacian(self) -> Any:
        """W = D - A, ``(m, m)``, sparse by rows: W_ii = degree of i, W_ij = -weight of the edge ij."""
        from scipy.sparse import diags_array

        return (diags_array(self.degrees) - adjacency(self.size, self.edges, self.weights)).tocsr()

    @cached_property
    def lambda_max(self) -> float:
        """The largest eigenvalue of the Laplacian; 0 for a single node."""
        from barymesh.network.spectrum import largest_eigenvalue

        return largest_eigenvalue(self.laplacian)

    @cached_property
    def spectral_gap(self) -> float:
        """The second smallest eigenvalue of the Laplacian; infinite for a single node, as it has none to agree with."""
        from barymesh.network.spectrum import second_smallest_eigenvalue

        return second_smallest_eigenvalue(self.laplacian)

    @cached_property
    def diameter(self) -> int:
        """The largest number of hops between two nodes. Takes time O(m E)."""
        from scipy.sparse.csgraph import dijkstra

        links = adjacency(self.size, self.edges)
        blocks = (np.arange(k, min(k + ROWS, self.size)) for k in range(0, self.size, ROWS))
        return max(int(dijkstra(links, unweighted=True, indices=block).max()) for block in blocks)

    @cached_property
    def by_centrality(self) -> Indices:
        """The nodes from the centre outwards, ``(m,)``: those with the fewest hops to the farthest node first, then
        those with the most neighbours, then the lowest numbers.

        A breadth-first search from v shows that a node w hops away has at least ``max(w, e - w)`` to go, where e is
        what v has. Searches from the node that may be the centre, and from the node farthest from it, go on until
        these bounds leave no other; in large networks until the time O(E) is used up, and then the centre is the best
        node that was searched from.
        """
        from scipy.sparse.csgraph import dijkstra

        links, numbers = adjacency(self.size, self.edges), np.arange(self.size)
        least, searched = np.zeros(self.size), np.zeros(self.size, dtype=bool)
        most = max(SEARCHES, SEARCHED_EDGES // max(len(self.edges), 1))
        while True:
            ranked = np.lexsort((numbers, -self.degrees, least))
            source = int(ranked[0])
            if searched[source]:
                return ranked
            if searched.sum() >= most:
                least[~searched] = np.maximum(least[~searched], least[searched].min())
                return np.lexsort((numbers, -self.degrees, ~searched, least))
            for _ in range(2):
                hops = np.asarray(dijkstra(links, unweighted=True, indices=source))
                searched[source] = True
                least = np.maximum(least, np.maximum(hops, hops.max() - hops) if np.isfinite(hops).all() else hops)
                source = int(np.argmax(hops))

    def hops_from(self, node: int) -> Floats:
        """The number of edges on the shortest way from the node to every node, ``(m,)``; infinite if there is none."""
        from scipy.sparse.csgraph import dijkstra

        if node not in self._hops:
            self._hops[node] = np.asarray(dijkstra(adjacency(self.size, self.edges), unweighted=True, indices=node))
        return self._hops[node]

    @cached_property
    def positions(self) -> Floats:
        """Where to draw the nodes, ``(m, 2)``."""
        if self._given_positions is not None:
            return self._given_positions
        if self.size > SPRING:
            from barymesh.network.spectrum import smooth_layout

            return smooth_layout(adjacency(self.size, self.edges))
        import networkx

        placed = networkx.spring_layout(self.to_networkx(), seed=0)
        return np.array([placed[node] for node in range(self.size)])

    @property
    def known_positions(self) -> Floats | None:
        """The positions, if they were given or have been computed."""
        known: Floats | None = vars(self).get("positions", self._given_positions)
        return known

    def to_networkx(self, *, positions: bool = False) -> Any:
        """The same graph as a ``networkx.Graph``, with edge attribute "weight" if it has weights.

        Nodes have the attribute "pos" if their positions were given or have been computed.
        ``networkx.draw(graph, dict(graph.nodes.data("pos")))`` then draws it as it is drawn here.

        Parameters
        ----------
        positions : bool, default=False
            Whether to compute the positions if they are not known.

        Returns
        -------
        networkx.Graph
            A new one.
        """
        import networkx

        graph = networkx.Graph(name=self.name)
        graph.add_nodes_from(range(self.size))
        places = self.positions if positions else self.known_positions
        if places is not None:
            networkx.set_node_attributes(graph, dict(enumerate(map(tuple, places.tolist()))), "pos")
        graph.add_edges_from(self.edges.tolist())
        if self.weights is not None:
            networkx.set_edge_attributes(
                graph, dict(zip(map(tuple, self.edges.tolist()), self.weights.tolist(), strict=True)), "weight"
            )
        return graph

    def plot(self) -> Figure:
        """A figure of its nodes and edges.

        Returns
        -------
        matplotlib.figure.Figure
            Not shown yet.
        """
        from barymesh.viz.network_plot import plot_network

        return plot_network(self)

    def __repr__(self) -> str:
        return f"Network({self.name}: {self.size} nodes, {len(self.edges)} edges)"

    def _repr_html_(self) -> str:
        from barymesh.viz.html import network_as_html

        return network_as_html(self)


def require_unweighted(network: Network, method_name: str) -> None:
    """Refuse a network with weights, for a method that has no use for them."""
    if network.weights is None:
        return
    unusual = network.weights != 1
    found = _named(range(network.size), network.edges[unusual], network.weights[unusual])
    raise NetworkError(
        f"{method_name} works on networks without weights, but in {network.name} not all edges weigh 1: {found}. "
        "To drop the weights: Network(network.size, network.edges); in a file of edges, leave out their column."
    )


def require_size(nodes: int, size: int, what: str) -> None:
    """Refuse a number of nodes other than ``size``, the number of measures."""
    if nodes != size:
        raise NetworkError(f"{what} has {nodes} nodes, but there are {size} measures; it needs one node for each.")


def adjacency(size: int, edges: Indices, weights: Floats | None = None) -> Any:
    """A, ``(m, m)``, sparse by rows: A_ij = A_ji = weight of the edge ij, 1 without weights."""
    from scipy.sparse import coo_array

    values = np.ones(2 * len(edges)) if weights is None else np.tile(weights, 2)
    return coo_array((values, _both_ways(edges)), shape=(size, size)).tocsr()


def parts(size: int, edges: Indices) -> list[Indices]:
    """The nodes of each connected part, the largest part first."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(adjacency(size, edges), directed=False)
    grouped = np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label, minlength=count))[:-1])
    return sorted(grouped, key=len, reverse=True)


def check_edges(names: Sequence[Any], edges: Indices, weights: Floats | None, connected: bool = True) -> None:
    """Refuse edges that are no simple graph with positive weights, ``connected`` if it must be. Messages call node i
    ``names[i]``."""
    size = len(names)
    unknown = (edges < 0) | (edges >= size)
    if unknown.any():
        raise NetworkError(
            f"The edge {tuple(edges[unknown.any(axis=1)][0].tolist())} names a node that does not exist: the nodes "
            f"are numbered from 0 to {size - 1}."
        )
    loops = edges[:, 0] == edges[:, 1]
    if loops.any():
        raise NetworkError(f"The network has self-loops: {_named(names, edges[loops])}. Remove them.")
    numbers, counts = np.unique(edges.min(axis=1) * size + edges.max(axis=1), return_counts=True)
    if (counts > 1).any():
        repeated = np.stack(np.divmod(numbers[counts > 1], size), axis=1)
        raise NetworkError(
            f"The network has edges that occur more than once: {_named(names, repeated)}. Give each edge "
            "once, in one direction. A matrix must be a NumPy or SciPy array, not a list."
        )
    if weights is not None:
        if weights.shape != (len(edges),):
            raise NetworkError(f"The weights have shape {weights.shape}; give one for each of the {len(edges)} edges.")
        bad = ~((weights > 0) & (weights < np.inf))
        if bad.any():
            raise NetworkError(
                f"Edge weights must be positive and finite. These are not: {_named(names, edges[bad], weights[bad])}. "
                "Leave an edge out if its nodes exchange no messages."
            )
    pieces = parts(size, edges) if connected else []
    if len(pieces) > 1:
        small = [f"[{listed(names[node] for node in piece)}]" for piece in pieces[1:]]
        raise NetworkError(
            f"The network is not connected: it has {len(pieces)} parts. The largest has {len(pieces[0])} of the {size} "
            f"nodes; the others are {listed(small)}. Add edges that join them."
        )


def listed(items: Iterable[Any]) -> str:
    """The first few items as text, and how many there are if that is not all."""
    everything = [str(item) for item in items]
    text = ", ".join(everything[:LISTED])
    return text if len(everything) <= LISTED else f"{text}, ... ({len(everything)} in all)"


def _named(names: Sequence[Any], edges: Indices, weights: Floats | None = None) -> str:
    pairs = [f"({names[i]}, {names[j]})" for i, j in edges]
    return listed(pairs if weights is None else [f"{p} has {w:g}" for p, w in zip(pairs, weights, strict=True)])


def _both_ways(edges: Indices) -> tuple[Indices, Indices]:
    return np.concatenate([edges[:, 0], edges[:, 1]]), np.concatenate([edges[:, 1], edges[:, 0]])


def _as_pairs(edges: ArrayLike) -> Indices:
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise NetworkError(
            f"The edges are not all pairs of nodes ({error}). Give pairs of node numbers (E, 2)."
        ) from error
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.intp)
    if pairs.dtype.kind not in "iu" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise NetworkError(
            f"The edges are an array of shape {pairs.shape} and type {pairs.dtype}; give pairs of node numbers (E, 2)."
        )
    return pairs.astype(np.intp)
