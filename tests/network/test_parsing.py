"""All ways to give a network, and what is refused with a reason."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.errors import BarymeshError, NetworkError, NotEnoughMemoryError
from barymesh.network import GENERATORS, Network, as_network, require_unweighted
from tests.network.examples import random_weighted, refused, seeds


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
        ("erdos_renyi:q=0.5", ["erdos_renyi", "'q'", "it takes p."]),
        ("watts_strogatz:k=4,beta=0.5", ["'beta'", "it takes k, p."]),
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
