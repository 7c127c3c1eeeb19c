"""The rules of the spanning tree in plain Python, for one node and its messages: the specification of core/tree.cpp.

``update`` is what a node does first when it acts: it chooses its parent (``attach``), adds up what its children report
(``gather``), and takes over the newest target; ``note_target`` and ``message_of`` are the rest. The docstring of
core/tree.py explains the fields of a message, and that of TreeState the memory of a node. The functions at the end
apply the rules to arrays, and can take the place of the kernels with these names.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import floor

import numpy as np

from barymesh.core import tree

# larger than all distances and beats
FAR = 2.0**53
# the part of the checksum for a neighbour without any message: larger than all other terms together
MISSING_CHECK = 2.0**52
NEVER_CHANGED = -2.0
LAST_EPOCH = 2.0**43
# see core/tree.h
STRIDE, EPOCHS_AT_ONCE, EPOCH_BEATS = 64.0, 64.0, 200.0
# see core/tree.cpp
ARRIVED = 0.2


@dataclass
class Node:
    """What a node knows, and the last target that it has received."""

    id: int
    key: float
    away: float
    epoch: float
    root: float
    distance: float
    parent: int
    parent_beat: float
    stamp: float
    age: int
    quiet: int
    patience: int
    lag: float
    late: int
    late_stamps: float
    changed: float
    whole: float
    residual: float
    done: float
    rounds: float
    waited: int
    allowance: float
    newcomer: float
    settled: float
    agreed: float
    solved: float
    solved_epoch: float
    begun: float
    pace: float
    nodes: float
    trusting: float
    weight: float
    target: list[float]

    @property
    def is_root(self) -> bool:
        return self.parent == self.id

    @property
    def moves(self) -> bool:
        """Towards its target: also if it is told to stop too early."""
        return not (self.done and self.agreed) and self.stamp >= 0.0 and not self.away


@dataclass
class Report:
    """The sums over the subtrees of a node's children; in a message, those over the sender's own subtree."""

    weight: float
    error: float
    oldest: float
    covered: float
    check: float
    children: float
    sums: list[float] | list[int]


@dataclass
class Message:
    """What a neighbour has sent last."""

    sender: int
    epoch: float
    away: float
    root: float
    distance: float
    parent: int
    beat: float
    stamp: float
    whole: float
    residual: float
    done: float
    rounds: float
    report: Report
    target: list[float]


# a neighbour without a message is None
Received = list[Message | None]


def update(node: Node, beat: int, received: Received, size: int) -> Report:
    """The node acts, after ``beat`` activations before. Returns its children's reports, sums of ``size`` numbers."""
    if node.away:
        # its messages keep announcing that it has left, in its last epoch
        return Report(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, [0] * size)
    attach(node, beat, received)
    report, newest = gather(node, received, size)
    if node.waited > node.patience and not node.done and may_begin(node):
        # the round cannot be completed: give it up, and wait longer from now on
        node.patience *= 2
        make_root(node, epoch_after(node.epoch, node.id, beat))
        return gather(node, received, size)[0]
    if newest is None or node.is_root:
        # a root makes its targets itself
        return report
    if newest.done and newest.done - 1.0 <= node.changed:
        # the decision to stop was made before this node's measure changed: all nodes must begin again
        if not may_begin(node):
            return report
        make_root(node, epoch_after(node.epoch, node.id, beat))
        return gather(node, received, size)[0]
    node.stamp, node.whole, node.residual, node.done = newest.stamp, newest.whole, newest.residual, newest.done
    node.rounds = max(node.rounds, newest.rounds)
    node.target = list(newest.target)
    return report


def note_target(node: Node, beat: int) -> dict[str, bool]:
    """The contribution of the node refers to its target from now on. Returns what is found of the node."""
    in_rounds, known, new_epoch = node.rounds > 0.0, node.stamp >= 0.0, node.solved_epoch != node.epoch
    fresh = in_rounds and known and (node.solved, node.solved_epoch) != (node.stamp, node.epoch)
    node.solved, node.solved_epoch = node.stamp, node.epoch
    if new_epoch:
        node.pace = np.inf
    if fresh:
        # the first target of an epoch begins its first round
        node.pace, node.begun = min(node.pace, np.inf if new_epoch else beat - node.begun), float(beat)
    return {"in_rounds": in_rounds, "fresh": fresh, "known": known, "moving": not in_rounds and node.moves}


def message_of(
    node: Node, beat: int, report: Report, own: list[float], error: float, tol: float, lower: list[float],
    upper: list[float], largest_check: float, masked: bool,
) -> Message:  # fmt: skip
    """The message of a node whose children's reports are ``report``, and whose own contribution is ``own``, with its
    ``error``, from the target. With masks somebody else writes the sums."""
    alone = node.is_root and report.weight == 0.0
    node.agreed = float(error <= tol)
    if error <= ARRIVED:
        node.newcomer = 0.0
    counted = 0.0 if node.newcomer and not alone and not masked else node.weight
    weight = report.weight + counted
    sums = [] if masked else [
        min(max(below + counted * one, weight * least), weight * most)
        for below, one, least, most in zip(report.sums, own, lower, upper, strict=True)
    ]  # fmt: skip
    whole = Report(
        weight, report.error if masked else max(report.error, error), min(report.oldest, node.stamp), report.covered,
        min(max(report.check, -largest_check), largest_check), report.children, sums,
    )  # fmt: skip
    return Message(
        node.id, node.epoch, node.away, node.root, node.distance, node.parent, float(beat), node.stamp, node.whole,
        node.residual, node.done, node.rounds, whole, node.target,
    )  # fmt: skip


def attach(node: Node, beat: int, received: Received) -> None:
    """The node chooses its parent: the neighbour closest to the smallest root, in the newest epoch it knows of.

    Within an epoch the pair (root, distance) of a node only decreases, and that of its parent was smaller when the node
    chose it, so parents never form a cycle. Any change that could increase it begins a new epoch, in which all nodes
    choose again.
    """
    messages = [m for m in received if m is not None]
    node.allowance = min(node.allowance + 1.0 / EPOCH_BEATS, EPOCHS_AT_ONCE + 2.0 * node.nodes)
    # a neighbour that leaves ends its epoch; epoch 0 is that of nodes that know of none yet
    claimed = [min(m.epoch + (1.0 if m.away else 0.0), LAST_EPOCH) for m in messages if m.epoch > 0.0]
    credible = [epoch for epoch in claimed if is_credible(node, epoch, received)]
    newest, ahead = max([0.0, *credible]), len(credible) < len(claimed)

    if node.epoch < 1.0 <= newest:
        # new, or without memory: before its crash the node may have had children in any earlier epoch
        make_root(node, epoch_after(newest, node.id, beat))
    elif node.epoch == 0.0:
        waited = node.age + 1
        make_root(node, 0.0)
        if newest == 0.0 and (ahead or None in received) and waited <= node.patience:
            # a message that is still to come may tell of an epoch
            node.age = waited
            return
        # the neighbours have no memory either, it seems
        node.epoch = epoch_after(newest, node.id, beat)
    elif (newest > node.epoch or ahead) and may_begin(node):
        # towards a neighbour that is far ahead it goes in steps, the same as others who see it
        step = min(floor(node.epoch) + STRIDE, LAST_EPOCH)
        make_root(node, newest if newest > node.epoch else step)

    node.age += 1
    for m in messages:
        if m.epoch != node.epoch or m.away or m.parent == node.id:
            continue
        if (m.root, m.distance + 1.0) < (node.root, node.distance) and m.distance + 1.0 < node.nodes:
            if m.root != node.root:
                forget_root(node)
                node.age = 0
            node.root, node.distance, node.parent = m.root, m.distance + 1.0, m.sender

    if node.is_root:
        return
    # the parent's beat tells whether a message from it is new
    beat_received = -1.0
    for m in messages:
        if m.epoch > 0.0 and m.sender == node.parent:
            beat_received = m.beat
    if beat_received == node.parent_beat:
        node.quiet += 1
    else:
        node.parent_beat, node.quiet = beat_received, 0
    if node.quiet > node.patience and not node.done and may_begin(node):
        # the path to the root is broken: find another, and wait longer from now on. Once the network has converged,
        # silent neighbours may simply have stopped
        node.patience *= 2
        make_root(node, epoch_after(node.epoch, node.id, beat))


def gather(node: Node, received: Received, size: int) -> tuple[Report, Message | None]:
    """The sum of what the children report, and the message with a target newer than the node's own, if there is any.

    A child that refers to a target much older than the node's own is late, and left out: it may have crashed. If late
    children still make progress, they are only slow, and the node raises its ``lag``.

    In rounds no child is left out: a child is late as long as its report does not refer to the node's own target, and
    ``waited`` counts the activations in which no late child has shown that it is alive. The news that the network works
    in rounds goes up the tree too.

    A target is taken from the parent only, whoever else sends a false one is not believed; nodes that trust one another
    take it from any neighbour in the tree, which may have it sooner.
    """
    in_rounds = node.rounds > 0.0
    report = Report(weight=0.0, error=0.0, oldest=FAR, covered=1.0, check=0.0, children=0.0, sums=[0] * size)
    newest, newest_stamp = None, node.stamp
    late, late_stamps = 0, 0.0
    for m in received:
        if m is not None and m.away:
            continue
        # over all nodes, the two terms of each link cancel
        known = m is not None and m.epoch > 0.0
        report.check += node_hash(node.id) - node_hash(m.sender) if known else MISSING_CHECK
        in_tree = known and m.epoch == node.epoch and m.root == node.root
        from_all = node.trusting > 0.0 and not in_rounds
        if in_tree and m.stamp > newest_stamp and (from_all or m.sender == node.parent):
            newest, newest_stamp = m, m.stamp
        if in_rounds:
            if in_tree and m.parent == node.id and m.report.oldest < node.stamp:
                late += 1
                late_stamps += m.beat
        elif in_tree and m.parent == node.id and node.stamp - m.stamp > node.lag:
            if m.stamp >= 0.0:
                late += 1
                late_stamps += m.stamp
            in_tree = False
        if not in_tree:
            # wait for this neighbour, up to the patience
            if node.age <= node.patience:
                report.covered = 0.0
        elif m.parent == node.id:
            child = m.report
            node.rounds = max(node.rounds, m.rounds)
            report.children += 1.0
            report.weight += child.weight
            report.error = max(report.error, child.error)
            report.oldest = min(report.oldest, child.oldest)
            report.covered = min(report.covered, child.covered)
            report.check += child.check
            report.sums = [a + b for a, b in zip(report.sums, child.sums, strict=True)]
    if in_rounds:
        alive = (late, late_stamps) != (node.late, node.late_stamps)
        node.waited = 0 if late == 0 or alive else node.waited + 1
    elif late < node.late or (late == node.late and late_stamps > node.late_stamps):
        node.lag = min(2.0 * node.lag, FAR)
    node.late, node.late_stamps = late, late_stamps
    return report, newest


def may_begin(node: Node) -> bool:
    """Whether the node may begin an epoch, or follow others into one, now. If so, it is counted."""
    if node.allowance < 1.0:
        return False
    node.allowance = 0.0 if node.allowance < 2.0 else node.allowance - 1.0
    return True


def is_credible(node: Node, epoch: float, received: Received) -> bool:
    """Whether the node believes in an epoch that a neighbour claims: one that is not far from its own, or that most
    neighbours are close to. A node without memory knows of no epoch, and may believe most of those that have sent
    something: the more the longer it has waited for the others."""
    present = [m for m in received if m is not None]
    close = [m for m in present if m.epoch >= epoch - STRIDE]
    if epoch <= node.epoch + STRIDE or 2 * len(close) > len(received):
        return True
    return node.epoch < 1.0 and epoch <= STRIDE * 2.0 ** min(node.age, 43) and 2 * len(close) > len(present)


def make_root(node: Node, epoch: float) -> None:
    """The node becomes the root of its own tree, in this epoch."""
    node.epoch, node.root, node.distance, node.parent = epoch, node.key, 0.0, node.id
    node.age = node.quiet = 0
    forget_root(node)


def forget_root(node: Node) -> None:
    """The node has no target of its new root yet."""
    node.stamp, node.done, node.changed = -1.0, 0.0, NEVER_CHANGED
    node.late, node.late_stamps, node.waited = 0, 0.0, 0


def epoch_after(newest: float, node: int, beat: int) -> float:
    """An epoch later than ``newest`` that no other node chooses: the node and its beat determine the fraction.

    Epochs below 1 belong to nodes without memory that have received no other epoch.
    """
    fraction = (mix(mix(node + 1) + beat + 2) >> 44) / 2**20
    if newest >= 1.0:
        return min(floor(newest) + 1.0 + 0.9 * fraction, LAST_EPOCH)
    return newest + (1.0 - newest) * (0.25 + 0.5 * fraction)


def node_hash(node: int) -> float:
    """The number that stands for the node in the checksum."""
    return float(1 + (mix(node + 1) >> 46))


def mix(x: int) -> int:
    """SplitMix64's finaliser, a bijection of 64-bit numbers."""
    x %= 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


# the same for arrays, called like the kernels

# the fields of a message and of a report that are columns of the header
HEADER = [one.name for one in fields(Message) if one.name not in ("report", "target")]
REPORTED = [one.name for one in fields(Report) if one.name != "sums"]


def column(name: str) -> int:
    return int(getattr(tree, name.upper()))


def Tree(arrays):  # noqa: N802
    """What the rules see of the arrays: the arrays themselves."""
    return arrays


def update_tree(
    t, nodes, beats, first, last, slots, rows, targets, total, messages, sums, words, findings
) -> None:  # fmt: skip
    size = sums.shape[1]
    for k, i in enumerate(nodes):
        node = node_from(t, i, targets[i])
        received = [message_from(rows[slot], size, targets.shape[1], words) for slot in slots[first[k] : last[k]]]
        report = update(node, int(beats[k]), received, size)
        excessive = report.weight + node.weight > total
        if excessive:
            # no sum is right
            report = Report(0.0, 0.0, -1.0, 0.0, MISSING_CHECK, 0.0, [0] * size)
        found = note_target(node, int(beats[k])) | {"excessive": excessive}
        store(node, t, i)
        targets[i] = node.target
        for name in REPORTED:
            messages[k, column(name)] = getattr(report, name)
        sums[k] = words_to_floats(report.sums) if words else report.sums
        for name, value in found.items():
            findings[column(name), k] = value


def write_messages(
    t, nodes, beats, errors, tol, parts, sums, lower, upper, targets, largest_check, words, messages, findings
) -> None:  # fmt: skip
    private = slice(tree.HEADER, tree.HEADER + sums.shape[1])
    for k, i in enumerate(nodes):
        node = node_from(t, i, targets[i])
        report = Report(*(messages[k, column(name)].item() for name in REPORTED), sums=sums[k].tolist())
        own = np.concatenate([np.empty(0), *(part[k] for part in parts)]).tolist()
        message = message_of(
            node, int(beats[k]), report, own, errors[k].item(), tol, lower.tolist(), upper.tolist(), largest_check,
            words,
        )  # fmt: skip
        store(node, t, i)
        for names, source in ((HEADER, message), (REPORTED, message.report)):
            for name in names:
                messages[k, column(name)] = getattr(source, name)
        if not words:
            messages[k, private] = message.report.sums
        messages[k, private.stop :] = message.target
        findings[tree.AT_ROOT, k] = node.is_root and not findings[tree.EXCESSIVE, k]


def settle_nodes(t, nodes, findings) -> None:
    for k, i in enumerate(nodes):
        node = node_from(t, i, np.empty(0))
        node.settled = max(node.settled, node.whole)
        store(node, t, i)
        findings[tree.MOVING, k] = not findings[tree.IN_ROUNDS, k] and not node.rounds and node.moves


def become_root(t, row, epoch) -> None:
    node = node_from(t, row, np.empty(0))
    make_root(node, epoch)
    store(node, t, row)


def node_from(t, row, target) -> Node:
    return Node(*(field[row].item() for field in t), target.tolist())


def store(node: Node, t, row) -> None:
    for name in t._fields[3:-3]:
        getattr(t, name)[row] = getattr(node, name)


def words_to_floats(words):
    return np.array([word % 2**64 for word in words], dtype=np.uint64).view(np.float64)


def message_from(row, up, down, words) -> Message | None:
    """The message in a row of the table of messages; the row of a missing one is zero."""
    if not row.any():
        return None
    header = {name: row[column(name)].item() for name in HEADER}
    header |= {name: int(header[name]) for name in ("sender", "parent")}
    report = {name: row[column(name)].item() for name in REPORTED}
    body = row[tree.HEADER : tree.HEADER + up + down].tolist()
    sums = row[tree.HEADER : tree.HEADER + up].view(np.uint64).tolist() if words else body[:up]
    return Message(**header, report=Report(**report, sums=sums), target=body[up:])
