"""What the compiled part of the spanning tree (tree.cpp) works on: the header of messages, and the state of nodes.

A message is a header, the sums over the sender's subtree, and the root's last target. It does not matter here what is
summed, nor what a target is. The fields of the header, where a *beat* counts the activations of a node:

- the sender and its position in the tree: SENDER; EPOCH, which identifies the tree, see ``attach`` in tree.cpp; AWAY,
  it does not take part; ROOT, the root's key; DISTANCE to the root; PARENT; BEAT of the sender
- about the target, passed on along with it: STAMP, the root's beat when it made the target, -1 for
  none; WHOLE, the target comes from a tree that covered all nodes; RESIDUAL, see ``SpanningTree.node_errors``; DONE,
  the network has converged: one more than the stamp that the decision rests on, 0 for no; ROUNDS, the network works in
  rounds: the root makes a new target only when all reports refer to the last one
- about the sender's subtree: WEIGHT, the sum of the weights; ERROR, the largest error; OLDEST, the stamp of the oldest
  target that any of its nodes refers to; COVERED, all neighbours of its nodes are in the tree or have timed out;
  CHECK, a checksum, 0 exactly if each of them is in the sums once; CHILDREN of the sender itself
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# the columns of the header, in the order of kernels.HEADER_FIELDS
HEADER = len(kernels.HEADER_FIELDS)
(
    SENDER, EPOCH, AWAY, ROOT, DISTANCE, PARENT, BEAT, STAMP, WHOLE, RESIDUAL, DONE, ROUNDS, WEIGHT, ERROR, OLDEST,
    COVERED, CHECK, CHILDREN,
) = range(HEADER)  # fmt: skip


# what kernels find of the nodes of a batch: the rows of ``findings (6, b)``, in the order of kernels.FINDINGS
IN_ROUNDS, FRESH, KNOWN, MOVING, EXCESSIVE, AT_ROOT = range(len(kernels.FINDINGS))


class Tree(NamedTuple):
    """The tree state of the hosted nodes, each field ``(k,)``: their ``id`` in the network, their ``key``, fields of
    TreeState, how many ``nodes`` the network has, whether they are ``trusting``: they take targets from all neighbours,
    and the ``weight`` that they count in headers."""

    id: Integers
    key: Floats
    away: Floats
    epoch: Floats
    root: Floats
    distance: Floats
    parent: Integers
    parent_beat: Floats
    stamp: Floats
    age: Integers
    quiet: Integers
    patience: Integers
    lag: Floats
    late: Integers
    late_stamps: Floats
    changed: Floats
    whole: Floats
    residual: Floats
    done: Floats
    rounds: Floats
    waited: Integers
    allowance: Floats
    newcomer: Floats
    settled: Floats
    agreed: Floats
    solved: Floats
    solved_epoch: Floats
    begun: Floats
    pace: Floats
    nodes: Floats
    trusting: Floats
    weight: Floats
