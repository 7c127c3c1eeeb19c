"""The compiled part of the spanning tree: what a node makes of its neighbours' headers, and the sums over its children.

A message begins with a header, whose fields are listed here; see tree.py for what they mean.
"""

from __future__ import annotations

import numba
import numpy as np

from barymesh.compiling import compiled, compiled_parallel

(
    SENDER, EPOCH, AWAY, ROOT, DISTANCE, PARENT, BEAT, STAMP, WHOLE, DONE, WEIGHT, ERROR, OLDEST, COVERED, CHILDREN,
) = range(15)  # fmt: skip
HEADER = 15
# no node is further from its root
FAR = 2.0**50
# the epoch of nodes that never heard of one
LOST = 0.5


@compiled
def stand_alone(i, key, root, distance, parent, stamp, age, quiet, done):
    """Node i is the root of a tree of its own, in a new epoch."""
    root[i], distance[i], parent[i], stamp[i], done[i] = key[i], 0.0, i, -1.0, 0.0
    age[i], quiet[i] = 0, 0


@compiled
def attach(i, slots, rows, key, epoch, root, distance, parent, parent_beat, stamp, age, quiet, patience, done):
    """Find node i's place in the tree from the headers of its neighbours.

    Within an epoch the pair (root, distance) of a node only falls, and that of its parent was smaller when the node
    chose it, so parents never form a ring. Whatever could raise it begins a new epoch, in which all choose anew.
    """
    newest = 0.0
    for s in slots:
        if rows[s, EPOCH] > 0.0:
            # who goes away ends the epoch he was in
            newest = max(newest, rows[s, EPOCH] + (1.0 if rows[s, AWAY] > 0.0 else 0.0))
    if epoch[i] < 1.0 and newest >= 1.0:
        # new here, or without memory: an earlier self may have had children in this epoch
        epoch[i] = newest + 1.0
        stand_alone(i, key, root, distance, parent, stamp, age, quiet, done)
    elif epoch[i] == 0.0:
        stand_by = newest == 0.0 and age[i] <= patience[i]
        waited = age[i] + 1
        stand_alone(i, key, root, distance, parent, stamp, age, quiet, done)
        if stand_by:
            age[i] = waited
            return
        # all the others seem to be without memory too
        epoch[i] = LOST
    elif newest > epoch[i]:
        epoch[i] = newest
        stand_alone(i, key, root, distance, parent, stamp, age, quiet, done)
    age[i] += 1
    beat = -1.0
    for s in slots:
        if rows[s, EPOCH] != epoch[i] or rows[s, AWAY] > 0.0:
            continue
        closer = rows[s, ROOT] < root[i] or (rows[s, ROOT] == root[i] and rows[s, DISTANCE] + 1.0 < distance[i])
        if closer and rows[s, DISTANCE] < FAR:
            if rows[s, ROOT] != root[i]:
                stamp[i] = -1.0
                age[i] = 0
            root[i], distance[i], parent[i] = rows[s, ROOT], rows[s, DISTANCE] + 1.0, np.int64(rows[s, SENDER])
    if parent[i] != i:
        for s in slots:
            if rows[s, EPOCH] > 0.0 and rows[s, SENDER] == parent[i]:
                beat = rows[s, BEAT]
        if beat == parent_beat[i]:
            quiet[i] += 1
        else:
            parent_beat[i], quiet[i] = beat, 0
        if quiet[i] > patience[i]:
            # the way to the root is cut: look for another, and be more patient from now on
            patience[i] *= 2
            epoch[i] += 1.0
            stand_alone(i, key, root, distance, parent, stamp, age, quiet, done)


@compiled
def gather(i, slots, rows, width, epoch, root, parent, stamp, age, patience, by_parent, header, sums):
    """Add up what node i's children report: ``sums (width,)`` and the header's WEIGHT, ERROR, OLDEST, COVERED and
    CHILDREN.

    Returns the row with the newest word from the root, or 0 if there is nothing newer than what the node knows;
    ``by_parent``: only the parent is listened to.
    """
    header[CHILDREN] = 0.0
    header[WEIGHT], header[ERROR], header[OLDEST], header[COVERED] = 0.0, 0.0, FAR, 1.0
    sums[:] = 0.0
    freshest, source = stamp[i], 0
    for s in slots:
        present = rows[s, EPOCH] > 0.0 and rows[s, AWAY] == 0.0
        same = present and rows[s, EPOCH] == epoch[i] and rows[s, ROOT] == root[i]
        if not same:
            # silent for very long, or gone: not waited for
            if rows[s, AWAY] == 0.0 and age[i] <= patience[i]:
                header[COVERED] = 0.0
            continue
        if rows[s, STAMP] > freshest and (not by_parent or rows[s, SENDER] == parent[i]):
            freshest, source = rows[s, STAMP], s
        if rows[s, PARENT] == i:
            header[CHILDREN] += 1.0
            header[WEIGHT] += rows[s, WEIGHT]
            header[ERROR] += rows[s, ERROR]
            header[OLDEST] = min(header[OLDEST], rows[s, OLDEST])
            header[COVERED] = min(header[COVERED], rows[s, COVERED])
            for k in range(width):
                sums[k] += rows[s, HEADER + k]
    return source


@compiled_parallel
def listen(
    nodes, first, last, slots, rows, key, epoch, root, distance, parent, parent_beat, stamp, age, quiet, patience,
    targets, whole, done, away, by_parent, headers, sums,
):  # fmt: skip
    """``attach`` and ``gather`` for a batch, and the newest word from the root into ``targets``, ``whole``, ``done``.

    ``headers (b, HEADER)`` and ``sums (b, 2 n)`` receive what the children report.
    """
    n = targets.shape[1]
    for k in numba.prange(nodes.size):
        i = nodes[k]
        if away[i] > 0.0:
            # it only goes on saying goodbye, in the epoch it was in
            headers[k], sums[k] = 0.0, 0.0
            continue
        mine = slots[first[k] : last[k]]
        attach(i, mine, rows, key, epoch, root, distance, parent, parent_beat, stamp, age, quiet, patience, done)
        source = gather(i, mine, rows, 2 * n, epoch, root, parent, stamp, age, patience, by_parent, headers[k], sums[k])
        if source > 0 and parent[i] != i:
            stamp[i], whole[i], done[i] = rows[source, STAMP], rows[source, WHOLE], rows[source, DONE]
            for j in range(n):
                targets[i, j] = rows[source, HEADER + 2 * n + j]
