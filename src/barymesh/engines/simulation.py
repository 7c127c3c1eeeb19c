"""Virtual time on one machine: any algorithm on any network, delays, schedule and faults; repeatable to the last bit.

Activations are taken from the schedule in slabs. Who receives what by when does not depend on the algorithm's numbers,
so it is worked out first; then activations that do not depend on one another run as one batch. That is exact: every
node computes what it would compute if events were carried out one at a time.
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

from barymesh.core import faults as fate_kernels
from barymesh.decentralized.algorithm import Algorithm, Batch, Elastic, Floats, Method, Rounds, S
from barymesh.engines.delivery import Mail
from barymesh.engines.recorder import Recorder
from barymesh.errors import FileError
from barymesh.interrupt import interruptible
from barymesh.io.atomic import replacing
from barymesh.network.topology import Network
from barymesh.scenario.delays import Delay
from barymesh.scenario.events import Join, Leave, NewData, Plan
from barymesh.scenario.faults import FaultTable
from barymesh.scenario.schedules import Schedule, Slab

# activations whose mail is looked at together, unless the network has more nodes: looking costs a little for every node
SLAB_ACTIVATIONS = 4096
# activations carried out together: enough for all threads, few enough to stay in the cache
BATCH = 1024
# seconds: a round takes some time even where no message does, or time would stand still
LEAST_ROUND = 2.0**-6
FORMAT = 1


class Simulation(ABC, Generic[S]):
    """A run in virtual time. ``run(until)`` may be called again and again; ``save`` and ``restore`` keep everything.

    ``fingerprint`` describes the run; a file of another run is refused.

    Attributes
    ----------
    now : float
        Virtual seconds since the start.
    activations : int
        How often nodes have acted, all together.
    network : Network
        Who talks to whom.
    recorder : Recorder
        What was recorded so far, as ``recorder.rows``.
    """

    def __init__(
        self,
        algorithm: Method[S],
        network: Network,
        recorder: Recorder,
        *,
        delays: Delay,
        faults: FaultTable,
        seed: int,
        record_every: float,
        fingerprint: str = "",
    ) -> None:
        self.network, self.recorder, self.record_every = network, recorder, record_every
        self.method, self.faults, self.fingerprint = algorithm, faults, fingerprint
        self.mail = Mail(network, algorithm.width, delays, faults, seed)
        self.state: S = algorithm.start()
        self.now, self.seconds = 0.0, 0.0
        self.steps, self.activations, self.records, self.resets_done, self.events_done = 0, 0, 0, 0, 0
        self.plan = Plan((), (), network.size)

    @property
    @abstractmethod
    def messages(self) -> int:
        """Messages sent so far, copies included."""

    @property
    def bytes(self) -> int:
        """What they took."""
        return self.method.bytes(self.state, self.messages)

    def duals(self) -> Floats:
        """The potentials now.

        Returns
        -------
        array (m, n)
            ``lam``, a row for each node.
        """
        return self.method.duals(self.state, self.steps)

    @abstractmethod
    def _advance(self, until: float) -> None:
        """Carry on to ``until``, or a little less: ``now`` tells."""

    @abstractmethod
    def _parts(self) -> dict[str, dict[str, NDArray[Any]]]:
        """All that changes, as named groups of arrays."""

    @abstractmethod
    def _rebuild(self, parts: dict[str, dict[str, NDArray[Any]]]) -> None:
        """Go on from what ``_parts`` gave."""

    def run(self, until: float, callback: Callable[[Simulation[S]], bool | None] | None = None) -> str:
        """Run to virtual time ``until``, recording on the way. Ctrl-C stops after the slab at hand.

        ``callback`` is called after every record; True stops the run. Returns "converged" (all nodes have stopped by
        themselves), "finished", "stopped" or "interrupted".
        """
        with interruptible() as interrupted:
            while True:
                due = self.records * self.record_every
                if due <= self.now:
                    self._record()
                    self.records += 1
                    if callback is not None and callback(self):
                        return "stopped"
                    continue
                if self.events_done == len(self.plan.events) and self.method.stopped(self.state).all():
                    if self.recorder.rows[-1][0] < self.now:
                        self._record()
                    return "converged"
                if self.now >= until:
                    return "finished"
                if interrupted():
                    return "interrupted"
                began = time.perf_counter()
                self._advance(min(due, until))
                self.seconds += time.perf_counter() - began

    def _record(self) -> None:
        present, measures = self.plan.after(self.events_done)
        self.recorder.record(self.now, self.duals(), self.activations, self.messages, self.bytes, present, measures)

    def save(self, path: str | Path) -> Path:
        """Write everything needed to go on, replacing an old file only when the new one is complete."""
        target = Path(path)
        header = {"format": FORMAT, "fingerprint": self.fingerprint}
        numbers = [self.now, self.steps, self.activations, self.records, self.seconds, self.recorder.seconds]
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
        """Go on from what ``save`` wrote, as if there had been no break."""
        try:
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            header = json.loads(str(arrays.pop("header")))
            numbers, rows, snapshots = (arrays.pop(name) for name in ("numbers", "rows", "snapshots"))
            version, fingerprint = header["format"], header["fingerprint"]
        except FileNotFoundError as error:
            raise FileError(
                f"There is no saved run {path} to go on with. Begin without resume, which makes one."
            ) from error
        except Exception as error:  # zipfile, zlib, json and missing fields share no base
            raise FileError(
                f"{path} is damaged, not a saved run of barymesh, or may not be opened ({error}). Begin again without "
                "resume."
            ) from error
        if version != FORMAT:
            raise FileError(
                f"{path} has run format {version}; this version reads format {FORMAT}. "
                "Go on with the version that wrote it, or begin again without resume."
            )
        if fingerprint != self.fingerprint:
            raise FileError(
                f"{path} is another run: it was saved with\n  {fingerprint}\nand this one has\n  "
                f"{self.fingerprint}\nGo on with the settings it had, or begin again without resume."
            )
        parts: dict[str, dict[str, NDArray[Any]]] = {}
        for name, array in arrays.items():
            group, _, field = name.partition(".")
            parts.setdefault(group, {})[field] = array
        self.now, self.seconds = float(numbers[0]), float(numbers[4])
        self.steps, self.activations, self.records = (int(k) for k in numbers[1:4])
        self.recorder.seconds = float(numbers[5])
        self.recorder.rows = [tuple(row) for row in rows.tolist()]
        self.recorder.snapshots = list(snapshots)
        self._rebuild(parts)


class AsynchronousSimulation(Simulation[S]):
    """Nodes act when the schedule says so, on whatever they have received by then."""

    def __init__(
        self,
        algorithm: Algorithm[S],
        network: Network,
        recorder: Recorder,
        *,
        schedule: Schedule,
        seed: int,
        plan: Plan | None = None,
        **common: Any,
    ) -> None:
        super().__init__(algorithm, network, recorder, seed=seed, **common)
        self.algorithm = algorithm
        if plan is not None:
            self.plan = plan
            for node in np.flatnonzero(~plan.at_start()):
                self._elastic.absent(self.state, int(node))
        self.clock = schedule.clock(network.size, seed)
        self.mail.hand_out(algorithm.first_messages(self.state))
        self.slab = Slab(np.empty(0, dtype=np.intp), np.empty(0), 0.0)
        # how far ahead the schedule is drawn: within the least delay no message can arrive
        usual = SLAB_ACTIVATIONS / self.clock.rate
        self.ahead = min(self.mail.least, usual) if self.mail.least > 0 else usual

    @property
    def messages(self) -> int:
        return self.mail.messages

    @property
    def _elastic(self) -> Elastic[S]:
        assert isinstance(self.algorithm, Elastic)
        return self.algorithm

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
                self.mail.forget(node, when)
                self.resets_done += 1
                return
            until = min(until, when)
        if self.slab.times.size == 0 and self.slab.end < until:
            self.slab = self.clock.next_slab(self.ahead)
        count = int(np.searchsorted(self.slab.times, until, side="left"))
        count = min(count, max(SLAB_ACTIVATIONS, self.network.size))
        nodes, times = self.slab.nodes[:count], self.slab.times[:count]
        self.slab = Slab(self.slab.nodes[count:], self.slab.times[count:], self.slab.end)
        steps = self.steps + np.arange(count)
        self.steps += count
        if self.faults.idle.size:
            awake = ~fate_kernels.idle(nodes, times, self.faults.idle, self.faults.idle_first)
            nodes, times, steps = nodes[awake], times[awake], steps[awake]
        if nodes.size:
            self._carry_out(nodes, times, steps)
        self.now = min(until, self.slab.end) if self.slab.times.size == 0 else min(until, float(self.slab.times[0]))

    def _carry_out(self, nodes: NDArray[np.intp], times: Floats, steps: NDArray[np.int64]) -> None:
        found = self.mail.look(nodes, times, self.now)
        for level in range(found.levels):
            independent = found.order if found.levels == 1 else found.order[found.level[found.order] == level]
            for start in range(0, independent.size, BATCH):
                batch = independent[start : start + BATCH]
                inbox = self.mail.receive(found, batch)
                some = Batch(nodes[batch], found.numbers[batch], steps[batch])
                self.mail.send(found, batch, self.algorithm.activate(self.state, some, inbox))
        self.activations += nodes.size

    def _parts(self) -> dict[str, dict[str, NDArray[Any]]]:
        slab: dict[str, NDArray[Any]] = {
            "nodes": self.slab.nodes, "times": self.slab.times, "end": np.array(self.slab.end),
            "resets": np.array(self.resets_done), "events": np.array(self.events_done),
        }  # fmt: skip
        return {"state": self.state.saved(), "mail": self.mail.saved(), "clock": self.clock.state, "slab": slab}

    def _rebuild(self, parts: dict[str, dict[str, NDArray[Any]]]) -> None:
        self.state = type(self.state).restored(parts["state"])
        self.mail.restore(parts["mail"])
        self.clock.state = {name: array.copy() for name, array in parts["clock"].items()}
        slab: dict[str, Any] = parts["slab"]
        self.slab = Slab(slab["nodes"], slab["times"], float(slab["end"]))
        self.resets_done, self.events_done = int(slab["resets"]), int(slab["events"])


class SynchronousSimulation(Simulation[S]):
    """Everybody waits for everybody: a round lasts as long as its slowest message.

    A lost message is sent again, after as long as it would have taken; nodes that sleep or are down, and links that are
    cut, are waited for.
    """

    def __init__(self, algorithm: Rounds[S], network: Network, recorder: Recorder, **common: Any) -> None:
        super().__init__(algorithm, network, recorder, **common)
        self.algorithm = algorithm
        self.round_ends = -1.0
        self.sent = 0

    @property
    def messages(self) -> int:
        return self.sent

    def _advance(self, until: float) -> None:
        if self.round_ends < 0:
            end, count = self.mail.round(self.steps, self.now)
            self.round_ends = max(end, self.now + LEAST_ROUND)
            self.sent += count
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
        sent = self.algorithm.messages(self.state)
        self.algorithm.update(self.state, sent, self.mail.exchange(sent))
        self.now, self.round_ends = self.round_ends, -1.0
        self.steps += 1
        self.activations += self.network.size

    def _parts(self) -> dict[str, dict[str, NDArray[Any]]]:
        return {
            "state": self.state.saved(),
            "rounds": {"ends": np.array([self.round_ends, self.resets_done, self.sent])},
        }

    def _rebuild(self, parts: dict[str, dict[str, NDArray[Any]]]) -> None:
        self.state = type(self.state).restored(parts["state"])
        ends: Any = parts["rounds"]["ends"]
        self.round_ends, self.resets_done, self.sent = float(ends[0]), int(ends[1]), int(ends[2])
