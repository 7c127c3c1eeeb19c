"""The compiled tree follows the rules in plain_tree.py, to the last bit."""

from __future__ import annotations

from contextlib import nullcontext
from unittest import mock

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barymesh.core import kernels, tree
from barymesh.decentralized.algorithm import Batch
from barymesh.decentralized.host import Host
from barymesh.decentralized.tree import SpanningTree
from barymesh.network import GENERATORS
from tests.decentralized import plain_tree
from tests.decentralized.average import average_tree, network_of, problem_of, vectors_of, weights_of
from tests.decentralized.unreliable import Unreliable

STEPS = 150
SILENCE = 25


def plain_rules():
    """While it is entered, trees follow the rules in plain Python."""
    names = ("Tree", "update_tree", "write_messages", "settle_nodes", "become_root")
    return mock.patch.multiple(kernels, **{name: getattr(plain_tree, name) for name in names})


def assert_same(one, other):
    assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


class Impatient(SpanningTree):
    """Gives up soon on neighbours that are silent or late."""

    def start(self):
        state = super().start()
        state.patience[:], state.lag[:] = 3, 4.0
        return state


class Run:
    """A tree in memory, where things happen; ``rules``: a context in which it does what it does."""

    def __init__(self, rules, graph, seed, tol, reach):
        # every node has two vectors, the second after a change
        self.rules, self.size, vectors = rules, graph.size, vectors_of(2 * graph.size, seed)
        algorithm = average_tree(graph, vectors, weights_of(graph.size, seed), tol, Impatient)
        transport = Unreliable(graph, algorithm, np.random.default_rng(seed), reach)
        self.host = Host(algorithm, transport, problem_of(graph.size))

    def step(self, k, events, rows):
        """The events ``(kind, node)`` happen, then the nodes in these rows act. Returns their messages."""
        algorithm, state = self.host.algorithm, self.host.state
        with self.rules():
            for kind, node in events:
                if kind == "change":
                    algorithm.change(state, node, self.size + node)
                else:
                    getattr(algorithm, kind)(state, node)
            everybody = self.host.batch(k)
            batch = Batch(rows, everybody.counts[rows], everybody.steps[rows])
            outgoing = self.host.activate(batch)
            self.host.send(batch, outgoing)
        return outgoing.messages


@given(
    size=st.integers(2, 10), network=st.sampled_from(sorted(GENERATORS)), seed=st.integers(0, 1000),
    tol=st.sampled_from([0.0, 1e-9, 0.5]), reach=st.sampled_from([1, 4]), share=st.sampled_from([0.2, 0.6, 1.0]),
    events=st.lists(
        st.tuples(
            st.integers(0, STEPS - 1), st.sampled_from(["leave", "join", "reset", "absent", "change", "silent"]),
            st.integers(0, 9),
        ),
        min_size=4, max_size=16,
    ),
)  # fmt: skip
@example(1, "path", 0, 1e-9, 1, 1.0, [(20, "reset", 0), (40, "change", 0), (60, "leave", 0), (80, "join", 0)])
# a change while the decision to stop is on its way
@example(6, "cycle", 0, 1e-9, 1, 0.6, [(46, "change", 3)])
@example(6, "complete", 1, 0.5, 1, 1.0, [(0, "reset", node) for node in range(6)])
@example(6, "cycle", 2, 0.5, 1, 1.0, [(60, "change", 3), (80, "leave", 1), (120, "join", 1)])
@settings(max_examples=25)
def test_a_history(size, network, seed, tol, reach, share, events):
    """Some nodes at a time act, messages are late, lost and overtaken, nodes come, go, forget, change and are silent:
    after every step, the state and the messages are those of the plain rules."""
    graph, rng = network_of(network, size, seed), np.random.default_rng(seed)
    compiled, plain = (Run(rules, graph, seed, tol, reach) for rules in (nullcontext, plain_rules))
    silent_until = np.zeros(size, dtype=np.int64)
    for k in range(STEPS):
        now = [(kind, node % size) for step, kind, node in events if step == k]
        silent_until[[node for kind, node in now if kind == "silent"]] = k + SILENCE
        acting = rng.permutation(size)[: rng.binomial(size, share)]
        acting = acting[silent_until[acting] <= k]
        others = [event for event in now if event[0] != "silent"]
        assert_same(*(run.step(k, others, acting) for run in (compiled, plain)))
        expected = plain.host.state.saved()
        for name, values in compiled.host.state.saved().items():
            assert_same(values, expected[name])


# any state, also those that no history leads to

FIELDS = {
    "key": [-9.0, -7.0, 5.0], "away": [0.0, 0.0, 0.0, 1.0], "epoch": [0.0, 0.3, 1.0, 1.7, 2.2],
    "root": [-9.0, -7.0, 5.0], "distance": [0.0, 1.0, 2.0, 5.0, plain_tree.FAR], "parent": range(5),
    "parent_beat": [-1.0, 0.0, 1.0], "stamp": [-1.0, 0.0, 3.0, 4.0, 9.0], "age": range(5), "quiet": range(5),
    "patience": range(1, 5), "lag": [1.0, 2.0, 4.0], "late": range(3), "late_stamps": [0.0, 3.0, 4.0, 9.0],
    "changed": [-2.0, -1.0, 0.0, 3.0], "whole": [0.0, 1.0], "residual": [0.0, 0.5, 2.0], "done": [0.0, 0.0, 1.0, 4.0],
    "rounds": [0.0, 1.0], "waited": range(5), "allowance": [0.0, 0.999, 1.0, 64.0], "newcomer": [0.0, 1.0],
    "settled": [0.0, 1.0], "agreed": [0.0, 1.0], "solved": [-1.0, 3.0, 4.0], "solved_epoch": [0.0, 1.0, 1.7],
    "begun": [-1.0, 2.0, 700.0], "pace": [3.0, 50.0, np.inf], "nodes": [3.0, 30.0], "trusting": [0.0, 1.0],
    "sender": range(5), "beat": [-1.0, 0.0, 1.0], "weight": [0.1, 0.7, 3.0], "error": [0.0, 0.3, 2.0],
    "oldest": [-1.0, 3.0, plain_tree.FAR], "covered": [0.0, 1.0], "check": [0.0, -5.0, 2.0**52], "children": [0.0, 2.0],
}  # fmt: skip


def random_tree(rng, size):
    """Nodes 0 to ``size - 1``, in any order."""
    return tree.Tree(rng.permutation(size), *(rng.choice(FIELDS[name], size) for name in tree.Tree._fields[1:]))


def random_messages(rng, nodes, degree, width):
    """The row that stands for no message, and ``degree`` messages to each of the nodes, most of them from its tree."""
    receivers = np.repeat(np.arange(nodes.id.size), degree)
    rows = rng.normal(size=(1 + receivers.size, width))
    rows[0] = 0.0
    for column, name in enumerate(kernels.HEADER_FIELDS):
        rows[1:, column] = rng.choice(FIELDS[name.lower()], receivers.size)
    for column, values, share in (
        (tree.EPOCH, nodes.epoch, 0.8), (tree.ROOT, nodes.root, 0.7), (tree.PARENT, nodes.id, 0.5),
    ):  # fmt: skip
        rows[1:, column] = np.where(rng.random(receivers.size) < share, values[receivers], rows[1:, column])
    return rows


def scatter(rng, epochs, latest):
    """All epochs before ``latest``, some anywhere before it."""
    far = rng.random(epochs.size) < 0.2
    epochs[far] = np.floor(rng.random(far.sum()) * latest)
    epochs %= latest


@given(
    seed=st.integers(0, 10**6), degree=st.integers(1, 8), up=st.integers(0, 70), down=st.integers(0, 70),
    padding=st.integers(0, 9), latest=st.sampled_from([1.0, 3.0, 1e4, 1e14]), words=st.booleans(),
)  # fmt: skip
@settings(max_examples=400)
def test_any_state(seed, degree, up, down, padding, latest, words):
    """``latest``: all epochs are before this; before 1 are those of nodes without memory."""
    size, rng = 30, np.random.default_rng(seed)
    nodes, acting = random_tree(rng, size), rng.permutation(size)[:25]
    scatter(rng, nodes.epoch, latest)
    rows = random_messages(rng, nodes, degree, tree.HEADER + up + down + padding)
    scatter(rng, rows[1:, tree.EPOCH], latest)
    slots = np.where(rng.random(len(rows) - 1) < 0.1, 0, np.arange(1, len(rows))).astype(np.int32)
    first = acting * degree
    last = first + rng.integers(degree + 1, size=acting.size)
    inbox = (acting, rng.integers(1000, size=acting.size), first, last, slots, rows)
    beats = inbox[1]
    # the columns of the header that are not about the subtree are written last
    messages, sums = np.zeros((acting.size, tree.HEADER + up + down)), np.ones((acting.size, up))
    written = [rng.normal(size=(size, down)), messages, sums, np.zeros((len(kernels.FINDINGS), acting.size), bool)]
    parts = tuple(rng.normal(size=(acting.size, one)) for one in (up // 3, up - up // 3))
    errors, tol, total = rng.choice([0.0, 0.1, 0.3, 2.0], acting.size), rng.choice([0.0, 0.2]), rng.choice([2.0, 100.0])
    lower, upper = -rng.random(up), rng.random(up)
    expected = [array.copy() for array in (*nodes, *written)]

    def act(rules, arrays, targets, messages, sums, findings):
        t = rules.Tree(tree.Tree(*arrays))
        rules.update_tree(t, *inbox, targets, total, messages, sums, words, findings)
        rules.write_messages(
            t, acting, beats, errors, tol, parts, sums, lower, upper, targets, 2.0**54, words, messages, findings
        )
        rules.settle_nodes(t, acting, findings)

    act(kernels, nodes, *written)
    act(plain_tree, expected[: len(nodes)], *expected[len(nodes) :])
    for one, other in zip((*nodes, *written), expected, strict=True):
        assert_same(one, other)
