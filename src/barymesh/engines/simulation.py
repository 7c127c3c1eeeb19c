"""Virtual time on one machine: any algorithm on any network, delays, schedule and faults; repeatable to the last bit.

Activations are taken from the schedule in slabs. Which messages have arrived by when does not depend on the algorithm's
numbers, so it is looked up first; then activations that do not depend on one another run as one batch. That is exact:
every node computes what it would compute if events were carried out one at a time.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from barymesh.core import kernels
from barymesh.decentralized.algorithm import (
    Algorithm,
    AsynchronousAlgorithm,
    Batch,
    ElasticAlgorithm,
    Floats,
    Indices,
    SynchronousAlgorithm,
)
from barymesh.decentralized.host import Host, Traffic, View, known_problem, view_of
from barymesh.engines.delivery import Delivery
from barymesh.engines.recorder import Recorder
from barymesh.errors import FileError
from barymesh.interrupt import interruptible
from barymesh.io.atomic import replacing
from barymesh.io.npz import read_npz
from barymesh.problem import Problem
from barymesh.record import Callback, NodeDetails, NodeState, Record
from barymesh.scenario.delays import Delay
from barymesh.scenario.events import Join, Leave, NewData, Plan
from barymesh.scenario.faults import FaultTable
from barymesh.scenario.schedules import Schedule, Slab
from barymesh.state import S
from barymesh.status import Status

# activations looked up together, unless the network has more nodes: looking up costs a little for every node
SLAB_ACTIVATIONS = 4096
# activations carried out together: enough for all threads, few enough to stay in the cache
BATCH = 1024
# seconds: a round takes some time even where no message does, or time would not advance
LEAST_ROUND = 2.0**-6
FORMAT = 2


class Simulation(ABC, Generic[S]):
    """A run in virtual time. ``run(until)`` may be called again and again; ``save`` and ``restore`` keep everything.

    ``until``: when the run is meant to end; nodes that are down then, and do not come back, are not members any more.
    ``fingerprint`` describes the run; a file of another run is refused.

    Attributes
    ----------
    now : float
        Virtual seconds since the start.
    activations : int
        How often nodes have acted, all together.
    recorder : Recorder
        What was recorded so far.
    """

    state: S
    traffic: Traffic

    def __init__(
        self,
        algorithm: Algorithm[S],
        recorder: Recorder,
        *,
        delays: Delay,
        faults: FaultTable,
        seed: int,
        record_every: float,
        until: float,
        fingerprint: str = "",
    ) -> None:
        self.network, self.recorder, self.record_every = recorder.network, recorder, record_every
        self.algorithm, self.faults, self.fingerprint, self.until = algorithm, faults, fingerprint, until
        self.delivery = Delivery(self.network, algorithm.width, delays, faults, seed)
        self.now, self.seconds = 0.0, 0.0
        self.steps, self.activations, self.records, self.resets_done, self.events_done = 0, 0, 0, 0, 0
        self.plan = Plan((), (), self.network.size)

    def view(self) -> View:
        """What the nodes know now."""
        return view_of(self.algorithm, self.state, self.recorder.problem, self.steps)

    def known(self, rows: Indices) -> Problem:
        """The problem of the nodes in these rows, as far as they know their measures."""
        return known_problem(self.algorithm, self.state, self.recorder.problem, rows)

    def members(self) -> NDArray[np.bool_]:
        """``(m,)``: the nodes that take part now, but for those that are down for the rest of the run."""
        present = self.plan.after(self.events_done)[0]
        members: NDArray[np.bool_] = present & ~self.faults.lost(self.now, max(self.until, self.now))
        return members

    def lost_members(self) -> NDArray[np.bool_]:
        """``(m,)``: the nodes that take part now, and are down at the end of the run."""
        lost: NDArray[np.bool_] = self.plan.after(self.events_done)[0] & self.faults.lost(self.until, self.until)
        return lost

    @abstractmethod
    def staleness(self) -> Floats:
        """``(links,)``: seconds since the message that a node last received over each directed link was sent."""

    @abstractmethod
    def _advance(self, until: float) -> None:
        """Advance to ``until``, or to a little less, and set ``now``."""

    @abstractmethod
    def _parts(self) -> dict[str, dict[str, NDArray[Any]]]:
        """All that changes, as named groups of arrays."""

    @abstractmethod
    def _rebuild(self, parts: dict[str, dict[str, NDArray[Any]]]) -> None:
        """Continue from what ``_parts`` gave."""

    def run(self, until: float, callback: Callback | None = None) -> Status:
        """Run to virtual time ``until``, recording on the way and at the end. Ctrl-C stops after the current slab.

        ``callback`` is called after every record; True stops the run. The run has converged once all nodes have
        stopped by themselves, none of them lost, and no event is to come.
        """
        self.until = max(self.until, until)
        # a record at the end of an earlier run, between two regular ones
        self.recorder.truncate(self.records)
        with interruptible() as interrupted:
            while True:
                due = self.records * self.record_every
                status = self._final_status(until, interrupted)
                regular = due <= self.now
                if regular or (status is not None and self.recorder.rows[-1][0] < self.now):
                    record = self._record()
                    self.records += regular
                    if callback is not None and callback(record) and status is None:
                        return Status.STOPPED
                if status is not None:
                    return status
                if regular:
                    continue
                began = time.perf_counter()
                self._advance(min(due, until))
                self.seconds += time.perf_counter() - began

    def _final_status(self, until: float, interrupted: Callable[[], bool]) -> Status | None:
        """Why to stop now, or None to go on."""
        if self._converged():
            return Status.CONVERGED
        if self.now >= until:
            return Status.OUT_OF_TIME
        return Status.INTERRUPTED if interrupted() else None

    def _converged(self) -> bool:
        """Whether all nodes that are there have stopped. They stop only at a barycenter of them all: if one of them is
        lost, now or later, that is not the barycenter of the members at the end."""
        stopped = self.algorithm.stopped(self.state)
        if self.events_done < self.plan.before(self.until) or not stopped.any():
            return False
        present = self.plan.after(self.events_done)[0]
        return bool(stopped[present].all() and not self.lost_members().any())

    def _record(self) -> Record:
        return self.recorder.record(
            self.now, self.view(), self.members(), self.activations, self.traffic, self._details
        )

    def _details(self) -> NodeDetails:
        states = np.full(self.network.size, NodeState.WORKING, dtype=object)
        states[self.algorithm.stopped(self.state)] = NodeState.CONVERGED
        states[self.faults.asleep(self.now)] = NodeState.ASLEEP
        states[self.faults.down(self.now)] = NodeState.DEAD
        states[~self.plan.after(self.events_done)[0]] = NodeState.LEFT
        return NodeDetails(states, self.staleness(), self.algorithm.gaps(self.state), self.algorithm.places(self.state))

    def save(self, path: str | Path) -> Path:
        """Write everything needed to continue, replacing an old file only when the new one is complete."""
        target = Path(path)
        header = {"format": FORMAT, "fingerprint": self.fingerprint}
        numbers = [
            self.now, self.steps, self.activations, self.records, self.seconds, self.recorder.seconds,
            self.traffic.messages, self.traffic.bytes,
        ]  # fmt: skip
        parts = {f"{group}.{name}": array for group, part in self._parts().items() for name, array in part.items()}
        with replacing(target) as file:
            np.savez(
                file,
                header=np.array(json.dumps(header)),
                numbers=np.array(numbers),
                rows=np.array(self.recorder.rows, dtype=float),
                snapshots=np.array(self.recorder.snapshots),
                **parts,  # type: ignore[arg-type]
            )
        return target

    def restore(self, path: str | Path) -> None:
        """Continue from what ``save`` wrote, as if there had been no break."""
        try:
            arrays = read_npz(Path(path))
            header = json.loads(str(arrays.pop("header")))
            numbers, rows, snapshots = (arrays.pop(name) for name in ("numbers", "rows", "snapshots"))
            version, fingerprint = header["format"], header["fingerprint"]
        except FileNotFoundError as error:
            raise FileError(
                f"There is no saved run {path} to continue. Begin without resume, which makes one."
            ) from error
        except FileError:
            raise
        except Exception as error:  # zipfile, zlib, json and missing fields share no base
            raise FileError(
                f"{path} is damaged, not a saved run of barymesh, or may not be opened ({error}). Begin again without "
                "resume."
            ) from error
        if version != FORMAT:
            raise FileError(
                f"{path} has run format {version}; this version reads format {FORMAT}. "
                "Continue with the version that wrote it, or begin again without resume."
            )
        if fingerprint != self.fingerprint:
            raise FileError(
                f"{path} is another run: it was saved with\n  {fingerprint}\nand this one has\n  "
                f"{self.fingerprint}\nContinue with the settings it had, or begin again without resume."
            )
        parts: dict[str, dict[str, NDArray[Any]]] = {}
        for name, array in arrays.items():
            group, _, field = name.partition(".")
            parts.setdefault(group, {})[field] = array
        self.now, self.seconds = float(numbers[0]), float(numbers[4])
        self.steps, self.activations, self.records = (int(k) for k in numbers[1:4])
        self.recorder.seconds = float(numbers[5])
        self.traffic.messages, self.traffic.bytes = int(numbers[6]), int(numbers[7])
        self.recorder.rows = [tuple(row) for row in rows.tolist()]
        self.recorder.snapshots = list(snapshots)
        self._rebuild(parts)


class AsynchronousSimulation(Simulation[S]):
    """Nodes act at the times of the schedule, on what they have received by then."""

    def __init__(
        self,
        algorithm: AsynchronousAlgorithm[S],
        recorder: Recorder,
        *,
        schedule: Schedule,
        seed: int,
        plan: Plan | None = None,
        **common: Any,
    ) -> None:
        super().__init__(algorithm, recorder, seed=seed, **common)
        self.host = Host(algorithm, self.delivery, recorder.problem)
        self.state, self.traffic = self.host.state, self.host.traffic
        if plan is not None:
            self.plan = plan
            for node in np.flatnonzero(~plan.at_start()):
                self._elastic.absent(self.state, int(node))
        self.clock = schedule.clock(self.network.size, seed)
        self.delivery.deliver_first(algorithm.first_messages(self.state))
        self.slab = Slab(np.empty(0, dtype=np.intp), np.empty(0), 0.0)
        # how far ahead the schedule is drawn: within the shortest delay no message can arrive
        usual = SLAB_ACTIVATIONS / self.clock.rate
        self.ahead = min(self.delivery.shortest, usual) if self.delivery.shortest > 0 else usual

    @property
    def _elastic(self) -> ElasticAlgorithm[S]:
        assert isinstance(self.algorithm, ElasticAlgorithm)
        return self.algorithm

    def staleness(self) -> Floats:
        return self.delivery.staleness(self.now)

    def _advance(self, until: float) -> None:
        if self.events_done < len(self.plan.events):
            event = self.plan.events[self.events_done]
            if event.at <= self.now:
                self.events_done += 1
                match event:
                    case Leave(node):
                        self._elastic.leave(self.state, node)
                    case Join(node):
                        self._elastic.join(self.state, node)
                    case NewData(node):
                        number = int(self.plan.after(self.events_done)[1][node])
                        self._elastic.change(self.state, node, number)
                return
            until = min(until, event.at)
        resets = self.faults.resets
        if self.resets_done < len(resets):
            when, node = resets[self.resets_done]
            if when <= self.now:
                self.algorithm.reset(self.state, node)
                self.delivery.forget(node, when)
                self.resets_done += 1
                return
            until = min(until, when)
        if self.slab.times.size == 0 and self.slab.end < until:
            self.slab = self.clock.next_slab(self.ahead)
        count = int(np.searchsorted(self.slab.times, until, side="left"))
        count = min(count, max(SLAB_ACTIVATIONS, self.network.size))
        if self.host.algorithm.selective and self.delivery.shortest == 0 and count:
            # which messages are sent must be known before any of them can arrive
            count = int(np.searchsorted(self.slab.times[:count], self.slab.times[0], side="right"))
        nodes, times = self.slab.nodes[:count], self.slab.times[:count]
        self.slab = Slab(self.slab.nodes[count:], self.slab.times[count:], self.slab.end)
        steps = self.steps + np.arange(count)
        self.steps += count
        if self.faults.idle.size:
            idle = np.empty(nodes.size, dtype=bool)
            kernels.idle_activations(nodes, times, (self.faults.idle, self.faults.idle_first), idle)
            awake = ~idle
            nodes, times, steps = nodes[awake], times[awake], steps[awake]
        if nodes.size:
            self._execute(nodes, times, steps)
        self.now = min(until, self.slab.end) if self.slab.times.size == 0 else min(until, float(self.slab.times[0]))

    def _execute(self, nodes: Indices, times: Floats, steps: NDArray[np.int64]) -> None:
        slab = self.delivery.find_received(nodes, times, self.now)
        for level in range(slab.levels):
            independent = slab.order if slab.levels == 1 else slab.order[slab.level[slab.order] == level]
            for start in range(0, independent.size, BATCH):
                places = independent[start : start + BATCH]
                self.host.act(Batch(nodes[places], slab.numbers[places], steps[places], places))
        self.activations += nodes.size

    def _parts(self) -> dict[str, dict[str, NDArray[Any]]]:
        slab: dict[str, NDArray[Any]] = {
            "nodes": self.slab.nodes, "times": self.slab.times, "end": np.array(self.slab.end),
            "resets": np.array(self.resets_done), "events": np.array(self.events_done),
        }  # fmt: skip
        return {"state": self.state.saved(), "delivery": self.delivery.saved(), "clock": self.clock.state, "slab": slab}

    def _rebuild(self, parts: dict[str, dict[str, NDArray[Any]]]) -> None:
        self.state.restore(parts["state"])
        self.delivery.restore(parts["delivery"])
        self.clock.state = {name: array.copy() for name, array in parts["clock"].items()}
        slab: dict[str, Any] = parts["slab"]
        self.slab = Slab(slab["nodes"], slab["times"], float(slab["end"]))
        self.resets_done, self.events_done = int(slab["resets"]), int(slab["events"])


class SynchronousSimulation(Simulation[S]):
    """All nodes wait for all others: a round lasts as long as its slowest message.

    A lost message is sent again, after as long as it would have taken; nodes that sleep or are down, and links that are
    cut, are waited for.
    """

    def __init__(self, algorithm: SynchronousAlgorithm[S], recorder: Recorder, **common: Any) -> None:
        super().__init__(algorithm, recorder, **common)
        self.synchronous = algorithm
        self.state, self.traffic = algorithm.start(), Traffic()
        self.round_ends = -1.0

    def staleness(self) -> Floats:
        # all nodes wait until everything has arrived
        return np.zeros(self.network.neighbours.size)

    def _advance(self, until: float) -> None:
        if self.round_ends < 0:
            end, count = self.delivery.round(self.steps, self.now)
            self.round_ends = max(end, self.now + LEAST_ROUND)
            self.traffic.add(count, self.algorithm.width)
        resets = self.faults.resets
        due = resets[self.resets_done][0] if self.resets_done < len(resets) else np.inf
        if due <= min(self.round_ends, until):
            self.algorithm.reset(self.state, resets[self.resets_done][1])
            self.resets_done += 1
            self.now = max(self.now, due)
            return
        if self.round_ends > until:
            self.now = until
            return
        sent = self.synchronous.messages(self.state)
        self.synchronous.update(self.state, sent, self.delivery.exchange(sent))
        self.now, self.round_ends = self.round_ends, -1.0
        self.steps += 1
        self.activations += self.network.size

    def _parts(self) -> dict[str, dict[str, NDArray[Any]]]:
        return {
            "state": self.state.saved(),
            "rounds": {"ends": np.array([self.round_ends, self.resets_done])},
        }

    def _rebuild(self, parts: dict[str, dict[str, NDArray[Any]]]) -> None:
        self.state.restore(parts["state"])
        ends: Any = parts["rounds"]["ends"]
        self.round_ends, self.resets_done = float(ends[0]), int(ends[1])
