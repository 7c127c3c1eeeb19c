"""The network as a figure: colours that stay, the tree and its root, locks."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("bokeh")

from barymesh.viz.bokeh_network import (
    AGREEMENT,
    LOCK_ROOM,
    edge_columns,
    network_figure,
    node_sources,
    tree_columns,
)

STATES = {"working": "circle", "dead": "x"}


def sources(errors, states=None, roots=(), masked=None):
    count = len(errors)
    states = states or ["working"] * count
    names, places = [f"n{k}" for k in range(count)], np.arange(2.0 * count).reshape(count, 2)
    none = np.zeros(count, dtype=bool)
    return node_sources(
        names, places, np.array(errors), states, STATES, ["dead"], [""] * count, np.array(roots, dtype=np.intp),
        none if masked is None else np.array(masked),
    )  # fmt: skip


def drawn(errors):
    """The colour mapper of the nodes in a figure of nodes with these errors."""
    edges = edge_columns(np.zeros((len(errors), 2)), np.empty((0, 2), dtype=np.intp), np.empty(0), [])
    tree = tree_columns(np.zeros((len(errors), 2)), np.full(len(errors), -1))
    plot = network_figure({**sources(errors), "edges": edges, "tree": tree}, "")
    (dots,) = (one for one in plot.renderers if one.data_source.name == "nodes")
    return dots.glyph.fill_color.transform


def test_a_colour_is_a_decade_whatever_the_largest_error_is():
    far, near = drawn([0.9, 0.5]), drawn([1e-7, 1e-9])
    assert (far.low, far.high, far.palette) == (near.low, near.high, near.palette)
    assert near.high / near.low == pytest.approx(10.0 ** len(AGREEMENT))
    assert len(set(AGREEMENT)) == len(AGREEMENT) == 8


def test_the_tree_has_a_line_for_every_child():
    places = np.array([[0.0, 0], [1, 0], [2, 0], [3, 0]])
    columns = tree_columns(places, np.array([1, 1, 1, -1]))
    np.testing.assert_array_equal(columns["x0"], [0, 2])
    np.testing.assert_array_equal(columns["x1"], [1, 1])


def test_a_root_has_a_ring_and_its_label_is_placed_first():
    found = sources([0.1, 0.1, np.nan], ["working", "working", "dead"], roots=[1])
    assert found["nodes"]["label"] == ["n0", "n1 root", "n2 dead"]
    assert found["nodes"]["rank"].tolist() == [1, 0, 0]
    assert found["roots"]["x"].tolist() == [2]
    assert found["roots"]["size"][0] / 2 <= found["nodes"]["reach"][1]


def test_masked_nodes_have_locks_where_there_is_room():
    few = sources([0.1] * 3, masked=[True, False, True])
    assert few["locks"]["x"].tolist() == [0, 4]
    assert (few["locks"]["size"] < LOCK_ROOM).all()
    many = sources([0.1] * 500, masked=[True] * 500)
    assert many["locks"]["x"].size == 0
