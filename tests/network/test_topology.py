"""Networks: their lists, spectra and distances against networkx and NumPy."""

from __future__ import annotations

import pickle
from unittest import mock

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.network import GENERATORS, Network, as_network, topology
from tests.network.examples import ANY_SIZE, edge_set, random_weighted, seeds, some_network


@given(name=st.sampled_from(sorted(GENERATORS)), m=st.integers(1, 60), seed=seeds)
@settings(max_examples=150)
def test_every_network_is_connected_simple_and_consistent(name, m, seed):
    network = some_network(name, m, seed)
    m = network.size
    edges = network.edges
    assert (edges[:, 0] < edges[:, 1]).all()
    assert edges.tolist() == sorted(map(list, edge_set(network)))
    graph = nx.Graph(map(tuple, edges.tolist()))
    graph.add_nodes_from(range(m))
    assert nx.is_connected(graph)
    assert graph.number_of_nodes() == m

    assert network.offsets.dtype == network.neighbours.dtype == network.reverse.dtype == np.intp
    for node in range(m):
        mine = network.neighbours[network.offsets[node] : network.offsets[node + 1]]
        assert mine.tolist() == sorted(graph[node])
    receivers = np.repeat(np.arange(m), np.diff(network.offsets))
    np.testing.assert_array_equal(network.reverse[network.reverse], np.arange(2 * len(edges)))
    np.testing.assert_array_equal(receivers[network.reverse], network.neighbours)
    np.testing.assert_array_equal(network.neighbours[network.reverse], receivers)

    assert network.weights is None
    assert network.degrees.tolist() == [graph.degree[node] for node in range(m)]
    assert network.degrees.dtype == float
    assert network.diameter == nx.diameter(graph)
    assert network.positions.shape == (m, 2)
    assert np.isfinite(network.positions).all()


@given(m=st.integers(2, 25), seed=seeds)
@settings(max_examples=60)
def test_the_laplacian_and_its_eigenvalues_are_those_of_networkx_and_numpy(m, seed):
    graph = random_weighted(m, seed)
    network = as_network(graph, m)
    # networkx lists nodes in their order of arrival
    expected = nx.laplacian_matrix(graph, nodelist=range(m)).toarray()
    assert network.laplacian.format == "csr"
    np.testing.assert_allclose(network.laplacian.toarray(), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(network.degrees, expected.diagonal(), rtol=1e-13)
    spectrum = np.linalg.eigvalsh(expected)
    assert network.lambda_max == pytest.approx(spectrum[-1], rel=1e-8)
    assert network.spectral_gap == pytest.approx(spectrum[1], rel=1e-6, abs=1e-12)
    # weights are no lengths: hops count
    assert network.diameter == nx.diameter(graph)


@pytest.mark.parametrize(
    "name",
    ["path", "cycle", "star", "grid", "tree", "tree:branching=2", "barbell:path=560", "random_regular", "erdos_renyi"],
)
def test_spectra_of_large_networks_are_those_of_numpy(name):
    """Too large for the dense way, slow to converge for Lanczos in the first few."""
    network = as_network(name, 600, seed=3)
    spectrum = np.linalg.eigvalsh(network.laplacian.toarray())
    assert network.lambda_max == pytest.approx(spectrum[-1], rel=1e-8)
    assert network.spectral_gap == pytest.approx(spectrum[1], rel=1e-8)


def test_weighted_spectra_of_large_networks_are_those_of_numpy():
    graph = random_weighted(600, 5)
    network = as_network(graph, 600)
    spectrum = np.linalg.eigvalsh(nx.laplacian_matrix(graph, nodelist=range(600)).toarray())
    assert network.lambda_max == pytest.approx(spectrum[-1], rel=1e-8)
    assert network.spectral_gap == pytest.approx(spectrum[1], rel=1e-8)


@pytest.mark.parametrize("m", [3000, 4001])
def test_spectra_and_diameters_of_long_networks_have_their_closed_forms(m):
    path, cycle = as_network("path", m), as_network("cycle", m)
    assert path.lambda_max == pytest.approx(4 * np.cos(np.pi / (2 * m)) ** 2, rel=1e-8)
    assert path.spectral_gap == pytest.approx(4 * np.sin(np.pi / (2 * m)) ** 2, rel=1e-8)
    assert cycle.lambda_max == pytest.approx(4 * np.sin(np.pi * (m // 2) / m) ** 2, rel=1e-8)
    assert cycle.spectral_gap == pytest.approx(4 * np.sin(np.pi / m) ** 2, rel=1e-8)
    assert path.diameter == m - 1
    assert cycle.diameter == m // 2


def test_a_single_node():
    network = as_network("complete", 1)
    assert (network.size, network.edges.shape, network.neighbours.size, network.offsets.tolist()) == (
        1,
        (0, 2),
        0,
        [0, 0],
    )
    assert (network.lambda_max, network.spectral_gap, network.diameter) == (0.0, np.inf, 0)
    assert network.laplacian.toarray().tolist() == [[0.0]]
    assert network.to_networkx().number_of_nodes() == 1


@pytest.mark.parametrize("name", [*ANY_SIZE, "grid", "torus", "hypercube"])
def test_one_and_two_nodes(name):
    assert len(as_network(name, 1).edges) == 0
    assert as_network(name, 2).edges.tolist() == [[0, 1]]


def test_edges_are_sorted_with_their_weights():
    network = Network(4, [[3, 1], [2, 0], [1, 0]], [5.0, 3.0, 2.0], name="mine")
    assert network.edges.tolist() == [[0, 1], [0, 2], [1, 3]]
    assert network.weights.tolist() == [2.0, 3.0, 5.0]
    assert network.degrees.tolist() == [5.0, 7.0, 3.0, 5.0]
    assert repr(network) == "Network(mine: 4 nodes, 3 edges)"
    graph = network.to_networkx()
    assert {(a, b): w for a, b, w in graph.edges.data("weight")} == {(0, 1): 2.0, (0, 2): 3.0, (1, 3): 5.0}
    assert Network(2, [(0, 1)], [1.0]).weights is None
    assert list(as_network("path", 3).to_networkx().edges.data()) == [(0, 1, {}), (1, 2, {})]


def test_networkx_keeps_weights_and_positions():
    places = [[0.0, 0.5], [1.0, 0.0], [2.0, -1.0]]
    network = Network(3, [[0, 1], [1, 2]], [1.0, 2.0], name="mine", positions=places)
    again = as_network(network.to_networkx(), 3)
    assert again.edges.tolist() == network.edges.tolist()
    assert again.weights.tolist() == network.weights.tolist()
    assert again.known_positions.tolist() == places
    assert again.name == "mine"
    unplaced = Network(4, [[0, 1], [1, 2], [2, 3]])
    assert not any("pos" in data for _, data in unplaced.to_networkx().nodes.data())
    drawn = dict(unplaced.to_networkx(positions=True).nodes.data("pos"))
    np.testing.assert_array_equal([drawn[node] for node in range(4)], unplaced.positions)
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, "somewhere", "pos")
    assert as_network(graph, 3).known_positions is None


def test_nobody_can_change_a_network():
    network = Network(3, [[0, 1], [1, 2]], [1.0, 2.0])
    for array in (network.edges, network.weights, network.neighbours, network.offsets, network.reverse):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_network_survives_pickling():
    network = as_network("random_geometric", 30)
    copy = pickle.loads(pickle.dumps(network))
    np.testing.assert_array_equal(copy.edges, network.edges)
    np.testing.assert_array_equal(copy.positions, network.positions)


def test_large_networks_can_be_built():
    network = as_network("random_regular", 100_000)
    assert (network.degrees == 4).all()
    assert len(as_network("complete", 500).edges) == 500 * 499 // 2


@pytest.mark.parametrize("seed", range(6))
def test_the_centre_is_that_of_all_ways(seed):
    """Of the nodes with the fewest hops to the farthest node, the one with the most neighbours."""
    graphs = (
        nx.random_regular_graph(3, 60, seed=seed),
        nx.random_labeled_tree(50, seed=seed),
        nx.connected_watts_strogatz_graph(40, 4, 0.3, seed=seed),
    )
    for graph in graphs:
        if nx.is_connected(graph):
            network = Network(graph.number_of_nodes(), np.array(graph.edges, dtype=np.intp))
            centre = int(network.by_centrality[0])
            most = max(graph.degree(node) for node in nx.center(graph))
            assert centre in nx.center(graph)
            assert graph.degree(centre) == most


def test_the_centre_of_a_large_network_is_searched_for_in_bounded_time():
    with mock.patch.object(topology, "SEARCHED_EDGES", 0), mock.patch.object(topology, "SEARCHES", 4):
        network = as_network("exponential", 200)
        centre = int(network.by_centrality[0])
    assert network.hops_from(centre).max() <= network.diameter
    assert sorted(network.by_centrality) == list(range(200))
