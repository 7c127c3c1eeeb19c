"""The compiled part of the spanning tree: how a node chooses its parent, and the sums over its children.

A message is a header, the sums over the sender's subtree, and the root's last target. It does not matter here what is
summed, nor what a target is. The fields of the header, where a *beat* counts the activations of a node:

- the sender and its position in the tree: SENDER; EPOCH, which identifies the tree, see ``attach``; AWAY, it does not
  take part; ROOT, the root's key; DISTANCE to the root; PARENT; BEAT of the sender
- about the target, passed on along with it: STAMP, the root's beat when it made the target, -1 for
  none; WHOLE, the target comes from a tree that covered all nodes; RESIDUAL, see ``SpanningTree.node_errors``; DONE,
  the network has converged: one more than the stamp that the decision rests on, 0 for no
- about the sender's subtree: WEIGHT, the sum of the weights; ERROR, the largest error; OLDEST, the stamp of the oldest
  target that any of its nodes refers to; COVERED, all neighbours of its nodes are in the tree or have timed out;
  CHECK, a checksum, 0 exactly if each of them is in the sums once; CHILDREN of the sender itself
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from barymesh.core.compiling import compiled, compiled_parallel
from barymesh.core.counter_random import mix

(
    SENDER, EPOCH, AWAY, ROOT, DISTANCE, PARENT, BEAT, STAMP, WHOLE, RESIDUAL, DONE, WEIGHT, ERROR, OLDEST, COVERED,
    CHECK, CHILDREN,
) = range(17)  # fmt: skip
HEADER = 17
# no node is further from its root, and no beat later
FAR = 2.0**53
# added to CHECK for a neighbour without any message: larger than all other terms together
MISSING_CHECK = 2.0**52
NEVER_CHANGED = -2.0


class Tree(NamedTuple):
    """The tree state of the hosted nodes, each field ``(k,)``: their ``id`` in the network, their ``key``, and fields
    of TreeState."""

    id: Any
    key: Any
    away: Any
    epoch: Any
    root: Any
    distance: Any
    parent: Any
    parent_beat: Any
    stamp: Any
    age: Any
    quiet: Any
    patience: Any
    lag: Any
    late: Any
    late_stamps: Any
    changed: Any
    whole: Any
    residual: Any
    done: Any


@compiled
def node_hash(i):
    """A hash of node i, for the checksum."""
    return np.float64(1 + np.int64(mix(np.uint64(i) + np.uint64(1)) >> np.uint64(46)))


@compiled
def epoch_after(newest, i, beat):
    """A new epoch later than ``newest`` that no node has used: node i and its beat determine the fraction.

    Epochs below 1 belong to nodes without memory that have received no other epoch.
    """
    bits = mix(mix(np.uint64(i) + np.uint64(1)) + np.uint64(beat + 2))
    fraction = np.float64(np.int64(bits >> np.uint64(44))) * 2.0**-20
    if newest >= 1.0:
        return np.floor(newest) + 1.0 + 0.9 * fraction
    return newest + (1.0 - newest) * (0.25 + 0.5 * fraction)


@compiled
def become_root(t, i, epoch):
    """Make the node in row i the root of its own tree, in this epoch."""
    t.epoch[i], t.root[i], t.distance[i], t.parent[i] = epoch, t.key[i], 0.0, t.id[i]
    t.age[i], t.quiet[i] = 0, 0
    forget_root(t, i)


@compiled
def forget_root(t, i):
    """Discard what the node in row i has from its last root: it has no target of the new one yet."""
    t.stamp[i], t.done[i], t.changed[i] = -1.0, 0.0, NEVER_CHANGED
    t.late[i], t.late_stamps[i] = 0, 0.0


@compiled
def attach(t, i, beat, slots, rows):
    """Choose the parent of the node in row i from the headers of its neighbours.

    Within an epoch the pair (root, distance) of a node only decreases, and that of its parent was smaller when the node
    chose it, so parents never form a cycle. Any change that could increase it begins a new epoch, in which all nodes
    choose again.
    """
    me = t.id[i]
    newest, missing = 0.0, False
    for s in slots:
        if rows[s, EPOCH] > 0.0:
            # a node that leaves ends its epoch
            newest = max(newest, rows[s, EPOCH] + (1.0 if rows[s, AWAY] > 0.0 else 0.0))
        elif rows[s, ROOT] == 0.0:
            missing = True
    if t.epoch[i] < 1.0 and newest >= 1.0:
        # new, or without memory: before its crash the node may have had children in any earlier epoch
        become_root(t, i, epoch_after(newest, me, beat))
    elif t.epoch[i] == 0.0:
        waited = t.age[i] + 1
        become_root(t, i, 0.0)
        if newest == 0.0 and missing and waited <= t.patience[i]:
            t.age[i] = waited
            return
        # its neighbours have no memory either, it seems
        t.epoch[i] = epoch_after(newest, me, beat)
    elif newest > t.epoch[i]:
        become_root(t, i, newest)
    t.age[i] += 1
    for s in slots:
        if rows[s, EPOCH] != t.epoch[i] or rows[s, AWAY] > 0.0 or rows[s, PARENT] == me:
            continue
        closer = rows[s, ROOT] < t.root[i] or (rows[s, ROOT] == t.root[i] and rows[s, DISTANCE] + 1.0 < t.distance[i])
        if closer and rows[s, DISTANCE] < FAR:
            if rows[s, ROOT] != t.root[i]:
                forget_root(t, i)
                t.age[i] = 0
            t.root[i], t.distance[i], t.parent[i] = rows[s, ROOT], rows[s, DISTANCE] + 1.0, np.int64(rows[s, SENDER])
    if t.parent[i] != me:
        beat_received = -1.0
        for s in slots:
            if rows[s, EPOCH] > 0.0 and rows[s, SENDER] == t.parent[i]:
                beat_received = rows[s, BEAT]
        if beat_received == t.parent_beat[i]:
            t.quiet[i] += 1
        else:
            t.parent_beat[i], t.quiet[i] = beat_received, 0
        if t.quiet[i] > t.patience[i] and t.done[i] == 0.0:
            # the path to the root is broken: find another, and wait longer from now on; once the network has converged,
            # silent neighbours may simply have stopped
            t.patience[i] *= 2
            become_root(t, i, epoch_after(t.epoch[i], me, beat))


@compiled
def gather(t, i, slots, rows, header, sums):
    """Add up what the children of the node in row i report: ``sums (up,)`` and the header's fields over the subtree.

    A child that refers to a target much older than the node's own is late, and left out: it may have crashed. If late
    children still make progress, they are only slow, and the node raises its ``lag``.

    Returns the slot with the newest target, or 0 if none is newer than the node's own.
    """
    me = t.id[i]
    header[WEIGHT], header[ERROR], header[OLDEST], header[COVERED] = 0.0, 0.0, FAR, 1.0
    header[CHECK], header[CHILDREN] = 0.0, 0.0
    sums[:] = 0.0
    freshest, source = t.stamp[i], 0
    late, late_stamps = 0, 0.0
    for s in slots:
        if rows[s, AWAY] > 0.0:
            continue
        header[CHECK] += node_hash(me) - node_hash(np.int64(rows[s, SENDER])) if rows[s, EPOCH] > 0.0 else MISSING_CHECK
        here = rows[s, EPOCH] > 0.0 and rows[s, EPOCH] == t.epoch[i] and rows[s, ROOT] == t.root[i]
        if here and rows[s, STAMP] > freshest:
            freshest, source = rows[s, STAMP], s
        if here and rows[s, PARENT] == me and t.stamp[i] - rows[s, STAMP] > t.lag[i]:
            if rows[s, STAMP] >= 0.0:
                late += 1
                late_stamps += rows[s, STAMP]
            here = False
        if not here:
            # wait for it, up to the patience
            if t.age[i] <= t.patience[i]:
                header[COVERED] = 0.0
            continue
        if rows[s, PARENT] == me:
            header[CHILDREN] += 1.0
            header[WEIGHT] += rows[s, WEIGHT]
            header[ERROR] = max(header[ERROR], rows[s, ERROR])
            header[OLDEST] = min(header[OLDEST], rows[s, OLDEST])
            header[COVERED] = min(header[COVERED], rows[s, COVERED])
            header[CHECK] += rows[s, CHECK]
            for k in range(sums.size):
                sums[k] += rows[s, HEADER + k]
    if late < t.late[i] or (late == t.late[i] and late_stamps > t.late_stamps[i]):
        t.lag[i] *= 2.0
    t.late[i], t.late_stamps[i] = late, late_stamps
    return source


@compiled
def update_node(t, i, beat, slots, rows, targets, header, sums):
    """``update_nodes`` for the node in row i."""
    attach(t, i, beat, slots, rows)
    source = gather(t, i, slots, rows, header, sums)
    if source == 0 or t.parent[i] == t.id[i]:
        return
    if rows[source, DONE] > 0.0 and rows[source, DONE] - 1.0 <= t.changed[i]:
        # the decision to stop was made before this node's measure changed
        become_root(t, i, epoch_after(t.epoch[i], t.id[i], beat))
        gather(t, i, slots, rows, header, sums)
        return
    t.stamp[i], t.whole[i], t.done[i] = rows[source, STAMP], rows[source, WHOLE], rows[source, DONE]
    t.residual[i] = rows[source, RESIDUAL]
    for j in range(targets.shape[1]):
        targets[i, j] = rows[source, HEADER + sums.size + j]


@compiled_parallel
def update_nodes(t, nodes, beats, first, last, slots, rows, targets, headers, sums):
    """``attach`` and ``gather`` for a batch of nodes, in the rows ``nodes (b,)``, after ``beats (b,)`` activations
    each; the newest target goes into ``targets (k, down)``, the children's reports into ``headers (b, HEADER)`` and
    ``sums (b, up)``.
    """
    for k in numba.prange(nodes.size):
        i = nodes[k]
        if t.away[i] > 0.0:
            # its messages keep announcing that it has left, in its last epoch
            headers[k], sums[k] = 0.0, 0.0
        else:
            mine = slots[first[k] : last[k]]
            update_node(t, i, beats[k], mine, rows, targets, headers[k], sums[k])


@compiled_parallel
def add_own(start, counted, sums, part, messages):
    """Write one part of a contribution into the messages, from column ``start`` of the sums on: the children's reports
    in ``sums (b, up)`` plus ``counted (b,)`` times the node's own ``part (b, size)``."""
    for row in numba.prange(counted.size):
        below, own, share, body = sums[row, start:], part[row], counted[row], messages[row, HEADER + start :]
        for k in range(own.size):
            body[k] = below[k] + share * own[k]


@compiled_parallel
def add_target(nodes, start, targets, messages):
    """Copy the targets of the nodes, rows of ``targets (k, down)``, into the messages from column ``start`` on."""
    for row in numba.prange(nodes.size):
        own, body = targets[nodes[row]], messages[row, start:]
        for k in range(own.size):
            body[k] = own[k]
