"""Networks for the tests: one of each family, random weighted graphs, and what a refusal must say."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import strategies as st

from barymesh.errors import NetworkError
from barymesh.network import GENERATORS

RANDOM = ["erdos_renyi", "random_regular", "watts_strogatz", "barabasi_albert", "random_geometric", "tree"]
ANY_SIZE = sorted(
    set(GENERATORS) - {"grid", "torus", "hypercube", "random_regular", "watts_strogatz", "barabasi_albert"}
)
seeds = st.integers(0, 2**32)


def edge_set(network):
    return set(map(tuple, network.edges.tolist()))


def some_network(name, m, seed=0):
    """A network of the named family; the nearest size it has."""
    if name == "hypercube":
        m = 2 ** (m.bit_length() - 1)
    elif name in ("grid", "torus"):
        m = 2 * max(m // 2, 2)
    return GENERATORS[name](max(m, 6) if name not in ANY_SIZE and name != "hypercube" else m, seed=seed)


def random_weighted(m, seed):
    """A random connected graph with random weights, as a networkx graph."""
    rng = np.random.default_rng(seed)
    graph = nx.random_labeled_tree(m, seed=seed)
    graph.add_edges_from((int(a), int(b)) for a, b in rng.integers(0, m, size=(m, 2)) if a != b)
    for _, _, data in graph.edges(data=True):
        data["weight"] = float(rng.uniform(0.1, 10))
    return graph


def refused(words, make):
    with pytest.raises(NetworkError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)
