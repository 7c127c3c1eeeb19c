"""Who gets a message in rounds: those to whom it is news, and from time to time those who may have missed it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from barymesh.core import tree
from barymesh.decentralized.algorithm import Batch, Floats, Indices
from barymesh.decentralized.inbox import Inbox
from barymesh.decentralized.tree.state import TreeState
from barymesh.state import S

# activations after which a node shows that it is alive to all neighbours, and to those in the tree, and so
# many more than a round takes after which it sends again what had no effect
HEARTBEAT, ALIVE, REPEAT = 64, 20, 8
# the columns of ``sent``: fields of the last message that all neighbours got, and of the last report; the stamp of the
# last target that the children got; and the beats when each of these was sent
TREE_FIELDS = (tree.EPOCH, tree.ROOT, tree.DISTANCE, tree.PARENT, tree.AWAY)
REPORT_FIELDS = (tree.EPOCH, tree.PARENT, tree.OLDEST, tree.COVERED, tree.CHECK, tree.WEIGHT, tree.ROUNDS)
SENT_TREE = slice(0, len(TREE_FIELDS))
SENT_REPORT = slice(SENT_TREE.stop, SENT_TREE.stop + len(REPORT_FIELDS))
SENT_STAMP, ALL_BEAT, REPORT_BEAT, STAMP_BEAT, TREE_BEAT = range(SENT_REPORT.stop, SENT_REPORT.stop + 5)
SENT = TREE_BEAT + 1


def recipients(state: TreeState[S], batch: Batch, inbox: Inbox, messages: Floats) -> NDArray[np.bool_]:
    """Over which links the messages ``(b, width)`` are sent; see ``AsynchronousAlgorithm.recipients``."""
    rows = batch.rows
    counts = inbox.last - inbox.first
    # for every link the place of its node in the batch, and what the neighbour has sent last
    owner = np.repeat(np.arange(rows.size), counts)
    links = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + inbox.first[owner]
    received = inbox.rows[inbox.slots[links], : tree.HEADER].T
    epoch, root, distance = received[tree.EPOCH], received[tree.ROOT], received[tree.DISTANCE]
    own = messages[owner, : tree.HEADER].T
    beats, sent = batch.counts.astype(float), state.sent[rows]
    fields, report = messages[:, TREE_FIELDS], messages[:, REPORT_FIELDS]

    def silent(*when: int) -> Floats:
        """Activations since anything was sent to these."""
        return np.asarray(beats - sent[:, when].max(axis=1))

    # after as long as a round takes, what was sent had no effect
    again = np.where(np.isfinite(state.pace[rows]), np.minimum(state.pace[rows], ALIVE), 0.0) + REPEAT
    to_all = (sent[:, SENT_TREE] != fields).any(axis=1) | (silent(ALL_BEAT) >= HEARTBEAT)
    in_rounds = state.rounds[rows] > 0
    to_all |= ~in_rounds
    # neighbours that do not know of this epoch, or of the way to the root through this node
    closer = (own[tree.ROOT] < root) | ((own[tree.ROOT] == root) & (own[tree.DISTANCE] + 1.0 < distance))
    behind = (epoch < own[tree.EPOCH]) | ((epoch == own[tree.EPOCH]) & closer)
    behind &= (silent(ALL_BEAT, TREE_BEAT) >= REPEAT)[owner]
    ready = (messages[:, tree.OLDEST] >= messages[:, tree.STAMP]) & (state.done[rows] == 0)
    up = (sent[:, SENT_REPORT] != report).any(axis=1) | (ready & (silent(ALL_BEAT, REPORT_BEAT) >= again))
    up |= silent(ALL_BEAT, REPORT_BEAT) >= ALIVE
    down = (sent[:, SENT_STAMP] != messages[:, tree.STAMP]) | (silent(ALL_BEAT, STAMP_BEAT) >= ALIVE)
    child = (epoch == own[tree.EPOCH]) & (root == own[tree.ROOT]) & (received[tree.PARENT] == own[tree.SENDER])
    late = child & (received[tree.STAMP] < own[tree.STAMP]) & (silent(ALL_BEAT, STAMP_BEAT) >= again)[owner]
    to_parent = up[owner] & (epoch > 0) & (received[tree.SENDER] == own[tree.PARENT])
    to_children = child & (down[owner] | late)
    for what, values, when, where in (
        (SENT_TREE, fields, ALL_BEAT, to_all),
        (SENT_REPORT, report, REPORT_BEAT, up | to_all),
        (SENT_STAMP, messages[:, tree.STAMP], STAMP_BEAT, _any(to_children, owner, rows.size) | to_all),
        (None, None, TREE_BEAT, _any(behind, owner, rows.size)),
    ):
        noted = where & in_rounds
        if what is not None and values is not None:
            state.sent[rows[noted], what] = values[noted]
        state.sent[rows[noted], when] = beats[noted]
    return np.asarray(to_all[owner] | behind | to_parent | to_children)


def _any(links: NDArray[np.bool_], owner: Indices, count: int) -> NDArray[np.bool_]:
    """``(count,)``: whether any of the links of each owner is chosen."""
    return np.asarray(np.bincount(owner, links, count) > 0)
