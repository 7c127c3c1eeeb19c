"""Networks: their lists, spectra and distances against networkx and NumPy; all generators; all ways to give one."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.errors import BarymeshError, NetworkError, NotEnoughMemoryError
from barymesh.network import GENERATORS, Network, as_network, require_unweighted

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


# the network itself


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


# generators


@pytest.mark.parametrize(
    ("text", "m", "oracle"),
    [
        ("complete", 9, nx.complete_graph(9)),
        ("cycle", 9, nx.cycle_graph(9)),
        ("path", 9, nx.path_graph(9)),
        ("star", 9, nx.star_graph(8)),
        ("hypercube", 16, nx.hypercube_graph(4)),
        ("grid", 196, nx.grid_2d_graph(14, 14)),
        ("grid", 15, nx.grid_2d_graph(3, 5)),
        ("grid:rows=2", 12, nx.grid_2d_graph(2, 6)),
        ("grid:rows=1", 7, nx.path_graph(7)),
        ("torus", 20, nx.grid_2d_graph(4, 5, periodic=True)),
        ("torus", 6, nx.grid_2d_graph(2, 3, periodic=True)),
        ("barbell", 10, nx.barbell_graph(5, 0)),
        ("barbell:path=3", 13, nx.barbell_graph(5, 3)),
        ("tree:branching=2", 15, nx.balanced_tree(2, 3)),
        ("tree:branching=3", 13, nx.balanced_tree(3, 2)),
        ("tree:branching=1", 6, nx.path_graph(6)),
        ("exponential", 11, nx.circulant_graph(11, [1, 2, 4, 8])),
        ("exponential", 16, nx.circulant_graph(16, [1, 2, 4, 8])),
    ],
)
def test_networks_that_are_not_random_are_those_of_networkx(text, m, oracle):
    numbered = nx.convert_node_labels_to_integers(oracle, ordering="sorted")
    network = as_network(text, m)
    assert edge_set(network) == {tuple(sorted(edge)) for edge in numbered.edges if edge[0] != edge[1]}


def test_names_say_what_was_made():
    assert as_network("cycle", 5).name == "cycle"
    assert as_network("erdos_renyi:p=0.5", 20).name == "erdos_renyi(p=0.5)"
    assert as_network("watts_strogatz: k=6, p=0.2", 20).name == "watts_strogatz(k=6, p=0.2)"
    assert as_network("grid", 12).name == "grid(3 x 4)"
    assert as_network("barbell:path=2", 12).name == "barbell(path=2)"
    assert as_network("tree:branching=2", 12).name == "tree(branching=2)"
    assert str(as_network("random_regular:degree=6", 20)) == "Network(random_regular(degree=6): 20 nodes, 60 edges)"


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("seed", [-1, 0, 2**70])
def test_the_seed_decides(name, seed):
    network = as_network(name, 40, seed)
    assert edge_set(network) == edge_set(as_network(name, 40, seed))
    assert edge_set(network) != edge_set(as_network(name, 40, seed + 1))


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_every_generator_takes_a_size_and_a_seed(name):
    parameters = inspect.signature(GENERATORS[name]).parameters
    assert next(iter(parameters)) == "m"
    assert parameters["seed"].default == 0
    assert GENERATORS[name](np.int64(16)).size == 16
    for bad in (0, -3, 2.5, "4"):
        refused(["number of nodes", repr(bad)], lambda bad=bad: GENERATORS[name](bad))


@given(m=st.integers(2, 40), degree=st.integers(1, 39), seed=seeds)
@settings(max_examples=40)
def test_random_regular_is_regular(m, degree, seed):
    if degree >= m or m * degree % 2:
        refused([f"{m} nodes", f"{degree} neighbours"], lambda: GENERATORS["random_regular"](m, degree=degree))
    elif degree > 1 or m == 2:
        network = GENERATORS["random_regular"](m, degree=degree, seed=seed)
        assert (network.degrees == degree).all()


def test_erdos_renyi_links_every_pair_equally_often():
    """Each of 2000 connected draws (almost all draws at this p) has each pair with probability p."""
    draws, m, p = 2000, 8, 0.7
    counts = np.zeros((m, m))
    for seed in range(draws):
        edges = GENERATORS["erdos_renyi"](m, p=p, seed=seed).edges
        counts[edges[:, 0], edges[:, 1]] += 1
    often = counts[np.triu_indices(m, 1)] / draws
    assert np.abs(often - p).max() < 5 * np.sqrt(p * (1 - p) / draws)


def test_the_default_density_of_erdos_renyi():
    m = 500
    edges = [len(as_network("erdos_renyi", m, seed).edges) for seed in range(10)]
    assert np.mean(edges) == pytest.approx(m * np.log(m), rel=0.05)
    assert len(as_network("erdos_renyi", 3).edges) >= 2
    assert len(as_network("erdos_renyi:p=1", 30).edges) == 30 * 29 // 2


@given(m=st.integers(5, 60), seed=seeds, half=st.integers(1, 2), p=st.sampled_from([0.0, 0.1, 0.5]))
@settings(max_examples=30)
def test_watts_strogatz_has_as_many_edges_as_its_ring(m, seed, half, p):
    network = GENERATORS["watts_strogatz"](m, k=2 * half, p=min(p, 0.1 * half), seed=seed)
    assert len(network.edges) == m * half
    if p == 0:
        assert edge_set(network) == {tuple(sorted(e)) for e in nx.circulant_graph(m, range(1, half + 1)).edges}


@given(m=st.integers(3, 60), k=st.integers(1, 5), seed=seeds)
@settings(max_examples=30)
def test_barabasi_albert_adds_k_edges_a_node(m, k, seed):
    if k < m:
        assert len(GENERATORS["barabasi_albert"](m, k=k, seed=seed).edges) == k * (m - k)


@given(m=st.integers(1, 60), seed=seeds)
@settings(max_examples=30)
def test_random_trees_are_trees(m, seed):
    assert nx.is_tree(GENERATORS["tree"](m, seed=seed).to_networkx())


@given(m=st.integers(1, 80), seed=seeds)
@settings(max_examples=30)
def test_random_geometric_links_what_is_near(m, seed):
    network = GENERATORS["random_geometric"](m, radius=0.5, seed=seed)
    points = network.positions
    assert ((points >= 0) & (points <= 1)).all()
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    near = np.argwhere(np.triu(distances <= 0.5, 1))
    assert edge_set(network) == set(map(tuple, near.tolist()))


# positions


def test_rings_are_drawn_as_rings_and_hubs_in_the_centre():
    for name in ("cycle", "complete"):
        positions = as_network(name, 12).positions
        np.testing.assert_allclose(np.linalg.norm(positions, axis=1), 1.0)
        np.testing.assert_allclose(
            np.linalg.norm(positions - np.roll(positions, 1, axis=0), axis=1), 2 * np.sin(np.pi / 12)
        )
    star = as_network("star", 12).positions
    np.testing.assert_array_equal(star[0], [0, 0])
    np.testing.assert_allclose(np.linalg.norm(star[1:], axis=1), 1.0)


@pytest.mark.parametrize("name", ["grid", "torus"])
def test_grids_are_drawn_as_grids(name):
    positions = as_network(name, 12).positions.reshape(3, 4, 2)
    np.testing.assert_allclose(positions[:, 1:] - positions[:, :-1], np.broadcast_to([1 / 3, 0], (3, 3, 2)))
    np.testing.assert_allclose(positions[1:] - positions[:-1], np.broadcast_to([0, -1 / 3], (2, 4, 2)), atol=1e-15)


@pytest.mark.parametrize("m", [40, 700])
def test_other_layouts_repeat_and_keep_neighbours_near(m):
    """Neighbours lie closer together than nodes do on average, by a half at least on a tree."""
    network = as_network("tree", m)
    positions = network.positions
    np.testing.assert_array_equal(positions, as_network("tree", m).positions)
    linked = np.linalg.norm(np.diff(positions[network.edges], axis=1), axis=2).mean()
    anyone = np.linalg.norm(positions[:, None] - positions[None], axis=2).mean()
    assert linked < anyone / 2


# ways to give a network


def test_a_network_is_taken_as_it_is():
    network = as_network("cycle", 7)
    assert as_network(network, 7) is network


@given(m=st.integers(2, 20), seed=seeds)
@settings(max_examples=40)
def test_all_ways_to_give_a_weighted_graph_agree(m, seed, tmp_path_factory):
    graph = random_weighted(m, seed)
    expected = {tuple(sorted((a, b))): w for a, b, w in graph.edges.data("weight")}
    matrix = nx.to_numpy_array(graph, nodelist=range(m))
    laplacian = np.diag(matrix.sum(axis=1)) - matrix
    triples = [(b, a, w) for (a, b), w in expected.items()]
    file = tmp_path_factory.mktemp("edges") / "graph.csv"
    file.write_text("".join(f"{a},{b},{w!r}\n" for a, b, w in triples))
    everything = [graph, matrix, laplacian, triples, file, str(file)]
    everything += [scipy.sparse.csr_array(matrix), scipy.sparse.coo_matrix(laplacian), np.asfortranarray(matrix)]
    for way in everything:
        network = as_network(way, m)
        assert dict(zip(map(tuple, network.edges.tolist()), network.weights, strict=True)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "value",
    [
        nx.path_graph(3),
        [(0, 1), (1, 2)],
        ((2, 1), [1, 0]),
        {(0, 1), (1, 2)},
        iter([np.array([0, 1]), np.array([1, 2])]),
        [(0, 1, 1.0), (2, 1)],
        np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        np.array([[False, True, False], [True, False, True], [False, True, False]]),
        np.array([[1, -1, 0], [-1, 2, -1], [0, -1, 1]]),
        scipy.sparse.csr_matrix([[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        scipy.sparse.coo_array(([1.0, 1.0, 1.0, 1.0, 0.0], ([0, 1, 1, 2, 0], [1, 0, 2, 1, 2])), shape=(3, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_graphs_without_weights(value):
    network = as_network(value, 3)
    assert network.edges.tolist() == [[0, 1], [1, 2]]
    assert network.weights is None


def test_what_is_given_is_left_as_it_was():
    sparse = scipy.sparse.csr_array(([1.0, 0.0, 0.5, 0.5], [1, 0, 0, 0], [0, 2, 4]), shape=(2, 2))
    edges, weights, positions = np.array([[1, 0]]), np.array([2.0]), np.zeros((2, 2))
    network = Network(2, edges, weights, positions=positions)
    weights[0], edges[0], positions[0] = 9.0, 0, 9.0
    assert (network.weights[0], network.positions[0, 0], network.edges.tolist()) == (2.0, 0.0, [[0, 1]])
    assert as_network(sparse, 2).edges.tolist() == [[0, 1]]
    assert sparse.data.tolist() == [1.0, 0.0, 0.5, 0.5]
    assert sparse.indptr.tolist() == [0, 2, 4]


def test_labels_are_numbered_in_the_order_of_the_graph_unless_they_are_numbers():
    graph = nx.Graph([("c", "a"), ("a", "b")])
    assert as_network(graph, 3).edges.tolist() == [[0, 1], [1, 2]]
    graph = nx.Graph([(2, 0), (0, 1)])
    assert as_network(graph, 3).edges.tolist() == [[0, 1], [0, 2]]
    graph = nx.Graph([(10, 30), (30, 20)], name="three")
    assert as_network(graph, 3).edges.tolist() == [[0, 1], [1, 2]]
    assert as_network(graph, 3).name == "three"


def test_ways_to_give_a_single_node(tmp_path):
    empty = tmp_path / "one.txt"
    empty.write_text("# nobody else\n")
    graph = nx.Graph()
    graph.add_node("alone")
    for value in ("path", graph, [], np.zeros((1, 1)), empty):
        assert as_network(value, 1).size == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "0,1\n1,2\n"),
        ("a.csv", "source,target\n0, 1\n\n1 ,2\n"),
        ("a.CSV", "\ufefffrom,to,weight\n0,1,1\n1,2,1.0\n"),
        ("a.txt", "# a comment\n0 1  # another\n  1\t2\n"),
        ("a.edges", "2;1\r\n1;0"),
    ],
)
def test_files_of_edges(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8", newline="")
    network = as_network(file, 3)
    assert network.edges.tolist() == [[0, 1], [1, 2]]
    assert (network.weights, network.name) == (None, name)


# errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ring", ["'ring'", *GENERATORS]),
        ("", ["''", "cycle"]),
        ("erdos_renyi:q=0.5", ["erdos_renyi", "'q'", "It has p."]),
        ("watts_strogatz:k=4,beta=0.5", ["'beta'", "It has k, p."]),
        ("cycle:p=1", ["cycle", "'p'", "none"]),
        ("random_regular:m=4", ["'m'", "degree"]),
        ("random_regular:seed=4", ["'seed'", "degree"]),
        ("erdos_renyi:p=often", ["p", "'often'", "not a number", "erdos_renyi:p="]),
        ("erdos_renyi:p", ["p", "''", "not a number"]),
        ("erdos_renyi:p=1.5", ["p is 1.5", "between 0 and 1"]),
        ("erdos_renyi:p=nan", ["p is nan", "between 0 and 1"]),
        ("erdos_renyi:p=0", ["erdos_renyi(p=0)", "12 nodes", "1000 draws", "larger p", "seed"]),
        ("random_regular:degree=2.5", ["degree is 2.5", "whole number"]),
        ("random_regular:degree=12", ["12 nodes", "12 neighbours", "below", "'complete'"]),
        ("random_regular:degree=1", ["random_regular(degree=1)", "1000 draws", "larger degree"]),
        ("watts_strogatz:k=3", ["12 nodes", "k=3", "even"]),
        ("watts_strogatz:k=12", ["12 nodes", "k=12", "below", "'complete'"]),
        ("watts_strogatz:p=-1", ["p is -1", "between 0 and 1"]),
        ("barabasi_albert:k=12", ["12 nodes", "k=12", "below"]),
        ("barabasi_albert:k=0", ["k is 0", "at least 1"]),
        ("random_geometric:radius=0.01", ["radius=0.01", "1000 draws", "larger radius"]),
        ("random_geometric:radius=-1", ["radius is -1"]),
        ("random_geometric:radius=inf", ["radius is inf", "finite"]),
        ("tree:branching=0", ["branching is 0", "at least 1"]),
        ("barbell:path=11", ["12 nodes", "path=11", "shorter"]),
        ("barbell:path=-1", ["path is -1", "at least 0"]),
        ("grid:rows=5", ["12 nodes", "rows=5", "divide 12"]),
        ("hypercube", ["2, 4, 8", "12", "exponential"]),
    ],
)
def test_names_that_make_no_network(text, words):
    refused(words, lambda: as_network(text, 12))


@pytest.mark.parametrize("name", ["grid", "torus"])
def test_a_prime_number_of_nodes_makes_no_rectangle(name):
    refused([name, "13", "prime", "1 x 13", "'path'"], lambda: as_network(name, 13))


def test_hopeless_draws_are_given_up_at_once():
    refused(["p=1e-05", "20000 nodes", " 1 draws"], lambda: as_network("erdos_renyi:p=1e-5", 20_000))


def test_a_network_that_cannot_fit_is_refused_before_it_is_made():
    with pytest.raises(NotEnoughMemoryError, match="sparser"):
        as_network("complete", 10**8)


def directed(*edges):
    return nx.DiGraph(edges)


def weighted(*weights):
    graph = nx.Graph()
    graph.add_weighted_edges_from(("hub", "ab"[k % 2] + str(k), weight) for k, weight in enumerate(weights))
    return graph


LOOSE = [(0, 1), (1, 2), (3, 4), (5, 6)]
TRIANGLE = np.ones((3, 3)) - np.eye(3)
MIXED = np.array([[0, 1, -1], [1, -2, 1], [-1, 1, 0]])


@pytest.mark.parametrize(
    ("value", "size", "words"),
    [
        (nx.path_graph(4), 3, ["4 nodes", "3 measures"]),
        (Network(2, [[0, 1]], name="pair"), 3, ["pair", "2 nodes", "3 measures"]),
        (TRIANGLE, 4, ["3 nodes", "4 measures"]),
        ([(0, 1), (1, 2)], 4, ["3 nodes", "4 measures"]),
        ([(0, 1), (1, 9)], 4, ["10 nodes", "4 measures"]),
        (LOOSE, 7, ["not connected", "3 parts", "3 of the 7", "[3, 4], [5, 6]"]),
        (nx.Graph([("a", "b"), ("b", "c"), ("x", "y")]), 5, ["not connected", "2 parts", "[x, y]"]),
        (nx.empty_graph(9), 9, ["9 parts", "[1], [2], [3], [4], [5], ...", "8 in all"]),
        (np.zeros((3, 3)), 3, ["not connected", "3 parts"]),
        (directed((0, 1), (1, 0), (1, 2)), 3, ["directed", "(1, 2)", "to_undirected"]),
        (directed((0, 1), (1, 0)), 2, ["directed", "one way only: none"]),
        (nx.MultiGraph([(0, 1), (0, 1)]), 2, ["multigraph", "networkx.Graph"]),
        (nx.Graph([("a", "b"), ("b", "b")]), 2, ["self-loops", "(b, b)", "Remove"]),
        (TRIANGLE + np.diag([0, 2, 0]), 3, ["self-loops", "nodes 1.", "Set them to 0"]),
        ([(0, 1), (1, 1)], 2, ["self-loops", "(1, 1)"]),
        ([(0, 1), (1, 2), (1, 0)], 3, ["more than once", "(0, 1)", "each edge once"]),
        ([[0, 1], [1, 0]], 2, ["more than once", "NumPy"]),
        (weighted(1, -2, 3), 4, ["(hub, b1) has -2", "positive"]),
        (weighted(1, 0, np.nan), 4, ["(hub, b1) has 0", "(hub, a2) has nan"]),
        (weighted(1, np.inf), 3, ["(hub, b1) has inf", "finite"]),
        (weighted(1, "heavy"), 3, ["'weight'", "numbers"]),
        (weighted(1, [2]), 3, ["'weight'", "numbers"]),
        ([(0, 1, 0.0)], 2, ["(0, 1) has 0"]),
        ([(0, 1, "x")], 2, ["weights", "numbers"]),
        (np.where(TRIANGLE > 0, np.nan, 0), 3, ["not finite", "(0, 1): nan", "6 in all"]),
        (np.triu(TRIANGLE), 3, ["transpose", "(0, 1): 1", "(A + A.T) / 2"]),
        (scipy.sparse.csr_array(np.triu(TRIANGLE)), 3, ["transpose", "(0, 1): 1"]),
        (-TRIANGLE, 3, ["(0, 1) has -1", "adjacency matrix", "Laplacian", "row 0 sums to -2"]),
        (MIXED, 3, ["(0, 2) has -1", "adjacency", "Laplacian", "some are positive"]),
        (np.zeros((2, 3)), 3, ["(2, 3)", "square"]),
        (np.zeros(3), 3, ["(3,)", "square"]),
        (scipy.sparse.coo_array((2, 3)), 3, ["(2, 3)", "square"]),
        (np.zeros((0, 0)), 3, ["empty"]),
        (np.array([["a"]]), 1, ["matrix", "numbers"]),
        (scipy.sparse.csr_array(np.array([[1j]])), 1, ["complex", "real"]),
        (nx.Graph(), 3, ["empty"]),
        ([], 3, ["empty", "3 measures"]),
        ([(0, 1), (1, 2, 3, 4)], 3, ["(1, 2, 3, 4)", "pairs", "NumPy"]),
        ([(0, 1.5)], 3, ["(0, 1.5)", "node numbers"]),
        ([0, 1], 3, ["(0,)", "pairs"]),
        ([(0, -1)], 1, ["(0, -1)", "does not exist"]),
        (3.5, 3, ["3.5", "float", "networkx.Graph"]),
        (None, 3, ["None", "name"]),
        (Path("somewhere.png"), 3, ["somewhere.png", ".csv", ".edges"]),
        ("nowhere.csv", 3, ["nowhere.csv", "No such file"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_no_network_is_refused_with_a_reason(value, size, words):
    refused(words, lambda: as_network(value, size))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,1\n1,2\n2,x\n", ["line 3", "'2 x'", "two node numbers"]),
        ("a,b\n0,1\n1\n", ["line 3", "'1'"]),
        ("0 1\n1 2 3 4\n", ["line 2", "1 2 3 4"]),
        ("0 1\n# fine\n1 -2\n", ["line 3", "-2"]),
        ("0 1\n1.5 2\n", ["line 2", "1.5"]),
        ("0 1\n1 3\n", ["line 2", "no node 3", "0 to 2"]),
        ("0 1\n1 2\n\n2 2\n", ["line 4", "node 2", "self-loop"]),
        ("0 1\n1 2\n1 0\n", ["line 3", "(0, 1)", "line 1"]),
        ("0 1 2\n1 2 0\n", ["line 2", "weight '0'", "positive"]),
        ("0 1 2\n1 2 nan\n", ["line 2", "weight 'nan'"]),
        ("0 1 2\n1 2 much\n", ["line 2", "weight 'much'"]),
        ("0 1 -2\n1 2 1\n", ["line 1", "weight '-2'"]),
        ("0 1\n", ["2 nodes", "3 measures"]),
        ("0 2\n", ["not connected", "[1]"]),
        ("", ["no edges"]),
        ("one,two\n", ["no edges"]),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, text, words):
    file = tmp_path / "bad.txt"
    file.write_text(text)
    refused(words if "not connected" in words else ["bad.txt", *words], lambda: as_network(file, 3))


def test_a_file_that_is_no_text(tmp_path):
    file = tmp_path / "bad.csv"
    file.write_bytes(b"\xff\xfe\x00\x81")
    refused(["bad.csv", "text file"], lambda: as_network(file, 3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Network(0, []), ["number of nodes is 0", "at least 1"]),
        (lambda: Network(3, [[0, 1], [1, 3]]), ["(1, 3)", "does not exist", "0 to 2"]),
        (lambda: Network(2, [[0.0, 1.0]]), ["(1, 2)", "float64", "node numbers"]),
        (lambda: Network(2, [0, 1]), ["(2,)", "(E, 2)"]),
        (lambda: Network(2, [[0, 1], [1]]), ["pairs"]),
        (lambda: Network(2, [[0, 1]], [1.0, 2.0]), ["(2,)", "1 edges"]),
        (lambda: Network(2, [[0, 1]], positions=[[0, 0]]), ["positions", "(1, 2)", "(2, 2)"]),
        (lambda: as_network("path", 0), ["number of measures is 0", "at least 1"]),
        (lambda: as_network("path", 2.5), ["number of measures is 2.5", "whole"]),
        (lambda: as_network("tree", 5, "x"), ["seed is 'x'", "whole"]),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(make, words):
    refused(words, make)


def test_weights_are_refused_where_they_have_no_meaning():
    require_unweighted(as_network("path", 5), "pull_sum")
    network = as_network([(0, 1, 2.0), (1, 2, 1.0), (2, 3, 0.5)], 4)
    words = ["pull_sum", "(0, 1) has 2", "(2, 3) has 0.5", "Network(network.size, network.edges)"]
    refused(words, lambda: require_unweighted(network, "pull_sum"))
    require_unweighted(Network(network.size, network.edges), "pull_sum")


def test_one_except_catches_network_errors():
    assert issubclass(NetworkError, BarymeshError)
    assert issubclass(NetworkError, ValueError)
