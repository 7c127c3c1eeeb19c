"""Generators of networks: what each promises, against networkx; and where their nodes are drawn."""

from __future__ import annotations

import inspect

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barymesh.network import GENERATORS, as_network
from tests.network.examples import RANDOM, edge_set, refused, seeds


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
