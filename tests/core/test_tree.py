"""What Python and C++ must agree on about the spanning tree. What it does is tested in tests/decentralized."""

from __future__ import annotations

import numpy as np
import pytest

from barymesh.core import kernels, tree

INTEGERS = {"id", "parent", "age", "quiet", "patience", "late", "waited"}


def some_tree(size=3):
    return tree.Tree(*(np.zeros(size, np.int64 if name in INTEGERS else float) for name in tree.Tree._fields))


def test_columns_and_rows_have_the_same_names():
    for names in (kernels.HEADER_FIELDS, kernels.FINDINGS):
        assert [getattr(tree, name) for name in names] == list(range(len(names)))


def test_fields_are_found_by_name():
    nodes = some_tree()
    nodes.key[1], nodes.id[1], nodes.done[:], nodes.quiet[:] = -7.0, 1, 5.0, 2
    kernels.become_root(kernels.Tree(nodes), 1, 3.5)
    changes = {"epoch": 3.5, "root": -7.0, "parent": 1, "stamp": -1.0, "changed": kernels.NEVER_CHANGED}
    for name, values in nodes._asdict().items():
        before = {"done": 5.0, "quiet": 2}.get(name, 0)
        after = {"key": -7.0, "id": 1}.get(name, changes.get(name, 0))
        np.testing.assert_array_equal(values, [before, after, before], err_msg=name)


def refused(nodes):
    with pytest.raises(TypeError, match="Tree"):
        kernels.Tree(nodes)


@pytest.mark.parametrize("name", tree.Tree._fields)
def test_arrays_of_another_kind_are_refused(name):
    nodes = some_tree()
    values = getattr(nodes, name)
    for wrong in (values.astype(np.float32), values[:2], np.zeros(6, values.dtype)[::2], values[None], None):
        refused(nodes._replace(**{name: wrong}))


def test_other_objects_are_refused():
    for wrong in (None, (), tuple(some_tree()), some_tree()._asdict()):
        refused(wrong)
