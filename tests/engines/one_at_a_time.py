"""The same simulation in the plainest way: a queue of events, one at a time, and a mailbox for every link."""

from __future__ import annotations

import heapq

import numpy as np

from barymesh.core import kernels
from barymesh.decentralized.algorithm import Batch
from barymesh.decentralized.host import Traffic
from barymesh.transport import wire

RESET, ARRIVAL, ACTIVATION, LATE_ARRIVAL = range(4)


class PlainInbox:
    """The messages of one node's neighbours, None where there is none, with a sum of its own."""

    def __init__(self, received, width):
        self.received, self.width = received, width
        self.rows = np.array([np.zeros(width), *(m for m in received if m is not None)])
        there = np.array([m is not None for m in received], dtype=bool)
        self.slots = np.where(there, np.cumsum(there), 0).astype(np.int32)
        self.first, self.last = np.array([0]), np.array([len(received)])

    def sum(self):
        totals = np.zeros(self.width)
        for message in self.received:
            if message is not None:
                totals = totals + message
        return totals[None], np.array([len(self.rows) - 1])


class Arrivals:
    """When messages arrive on a network with delays and faults; tests/core/test_delivery.py checks this kernel."""

    def __init__(self, network, delays, faults, seed):
        receiver = np.repeat(np.arange(network.size), np.diff(network.offsets))
        streams = np.empty(receiver.size, dtype=np.uint64)
        kernels.edge_streams(seed, network.neighbours, receiver, streams)
        self.edges = (network.offsets, network.neighbours.astype(np.uint32), streams)
        self.delays = (delays.law, delays.offset, delays.trace)
        self.faults = (faults.rates, faults.crashed, faults.crashed_first, faults.cut, faults.cut_first)

    def __call__(self, number, sent, edges, receivers):
        """The arrival times of message ``number``, sent at time ``sent`` on each of the edges to these receivers."""
        out, numbers, times = np.empty(edges.size), np.full(edges.size, number), np.full(edges.size, float(sent))
        kernels.arrival_times(numbers, times, edges, receivers, self.edges, self.delays, self.faults, out)
        return out


def run(algorithm, network, *, delays, schedule, faults, seed, duration):
    """The state after all activations before ``duration``, and what was sent.

    Every link carries what the wire would: the private columns of a message reach their receiver only.
    """
    table = delays.table(network)
    arrivals = Arrivals(network, table, faults, seed)
    private = algorithm.private.stop - algorithm.private.start

    state, traffic = algorithm.start(), Traffic()
    first = algorithm.first_messages(state)
    box = [(-1, first[j]) for j in network.neighbours]
    acted = np.zeros(network.size, dtype=np.int64)

    events, serial = [], 0
    clock, step, end = schedule.clock(network.size, seed), 0, 0.0
    while end < duration:
        slab = clock.next_slab(0.37)
        end = slab.end
        for node, time in zip(slab.nodes, slab.times, strict=True):
            events.append((time, ACTIVATION, step, int(node), None, None))
            step += 1
    events += [(time, RESET, k, node, None, None) for k, (time, node) in enumerate(faults.resets)]
    heapq.heapify(events)
    while events and events[0][0] < duration:
        now, kind, which, node, number, vector = heapq.heappop(events)
        if kind == RESET:
            algorithm.reset(state, node)
            for e in range(network.offsets[node], network.offsets[node + 1]):
                box[e] = (box[e][0], None)
        elif kind == ACTIVATION:
            spans = faults.idle[faults.idle_first[node] : faults.idle_first[node + 1]]
            if any(start <= now < stop for start, stop in spans):
                continue
            received = [box[e][1] for e in range(network.offsets[node], network.offsets[node + 1])]
            batch = Batch(np.array([node]), acted[[node]], np.array([which]))
            message = algorithm.activate(state, batch, PlainInbox(received, algorithm.width))[0]
            confidant = int(algorithm.private_receivers(message[None])[0])
            own = slice(network.offsets[node], network.offsets[node + 1])
            edges, receivers = network.reverse[own], network.neighbours[own]
            times = arrivals(int(acted[node]), now, edges, receivers)
            for e, to, time in zip(edges.tolist(), receivers.tolist(), times.tolist(), strict=True):
                sent = message.copy()
                if to != confidant:
                    sent[algorithm.private] = 0.0
                traffic.messages += 1
                traffic.bytes += wire.frame_bytes(algorithm.width - (0 if to == confidant else private))
                serial += 1
                if time < kernels.FOREVER:
                    order = LATE_ARRIVAL if time == now else ARRIVAL
                    heapq.heappush(events, (time, order, serial, e, int(acted[node]), sent))
            acted[node] += 1
        elif number > box[node][0]:
            box[node] = (number, vector)
    return state, traffic
