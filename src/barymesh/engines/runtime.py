"""A peer at work: its nodes act on their own clock, on whatever has arrived, and nobody waits for anybody.

What the nodes must remember is on disk before the messages that depend on it leave. So a peer may be killed at any
instant: when it starts again it goes on from there, and the others never hear two different things under one number.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.checks import real_number
from barymesh.engines.host import Host
from barymesh.errors import OptionError
from barymesh.io.atomic import replacing
from barymesh.io.slot_file import SlotFile
from barymesh.oracle import build_oracle
from barymesh.problem import Problem
from barymesh.transport.sockets import Links

_log = logging.getLogger(__name__)

Floats = NDArray[np.float64]


class Ending(StrEnum):
    """Why a peer ended its work."""

    CONVERGED = "the network has converged to the tolerance"
    FINISHED = "the duration asked for is over"
    STOPPED = "it was asked to stop"


@dataclass(frozen=True)
class Pace:
    """A node acts every ``interval`` seconds, give or take a share ``jitter`` of it; 0 for as often as it can."""

    interval: float = 0.05
    jitter: float = 0.2

    def __post_init__(self) -> None:
        interval, jitter = real_number(self.interval), real_number(self.jitter)
        if interval is None or not 0 <= interval <= 3600:
            raise OptionError(f"The interval is {self.interval!r}; it must be 0 to 3600 seconds.")
        if jitter is None or not 0 <= jitter < 1:
            raise OptionError(f"The jitter is {self.jitter!r}; it must be a share of the interval, 0 or more, below 1.")


@dataclass(frozen=True)
class Snapshot:
    """What the nodes of a peer know now. ``weights (k, n)``: their estimates of the barycenter; ``errors (k,)``: how
    far they believe to be from it, in L1, NaN where they cannot tell."""

    nodes: NDArray[np.intp]
    weights: Floats
    duals: Floats
    errors: Floats
    activations: int
    stopped: bool
    seconds: float


class Runtime:
    """Runs the nodes of ``host``, whose measures ``problem`` has, over ``links``.

    ``store``: where their memory is kept, None for nowhere. ``began``: when the run began, in seconds since 1970: from
    it, and the pace, nodes tell how often the others have acted.
    """

    def __init__(
        self, host: Host[Any], links: Links, problem: Problem, pace: Pace, store: SlotFile | None = None,
        began: float | None = None,
    ) -> None:  # fmt: skip
        self.host, self.links, self.pace, self.store = host, links, pace, store
        # from here on the clock on the wall may jump: only the steady one is asked
        self._began = time.monotonic() - (0.0 if began is None else time.time() - began)
        self._oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg)
        self._points = problem.support.points
        self._asked = asyncio.Event()
        self._random = np.random.default_rng()
        if store is not None and (kept := store.read()) is not None:
            host.restore(kept)
            links.recall(host.marks)
            _log.info("going on after %d activations", host.activations)

    def warm_up(self) -> None:
        """Compile what is not compiled yet, which may take half a minute: nobody shall have to wait for it later."""
        self._oracle.value_and_gradient(self.host.rehearse())

    def stop(self) -> None:
        """Ask it to end after the activation at hand."""
        self._asked.set()

    async def run(
        self, *, duration: float | None = None, linger: float | None = None,
        every: float = 1.0, tell: Callable[[Snapshot], None] | None = None,
    ) -> Ending:  # fmt: skip
        """Work until ``duration`` seconds are over, until ``linger`` seconds after the nodes know that the network has
        converged (None: go on, as others may still need to hear from them, or bring new data), or until asked to stop.

        ``tell`` is called with a Snapshot every so many seconds, and at the end.
        """
        started = time.monotonic()
        converged: float | None = None
        told = -np.inf
        due = started
        while True:
            now = time.monotonic()
            for message in self.links.newest().values():
                self.host.hear(message.sender, message.vector(), message.mark)
            said = self.host.act(self._usual())
            if self.store is not None:
                self.store.write(self.host.saved())
            for node, vector in said.items():
                self.links.publish(node, self.host.incarnation, self.host.sequence, vector)
            converged = (converged or now) if self.host.stopped else None
            ending = self._ending(now - started, duration, converged and now - converged, linger)
            if tell is not None and (now - told >= every or ending is not None):
                tell(self.snapshot())
                told = now
            if ending is not None:
                return ending
            due = max(due + self._wait(), time.monotonic())
            await self._until(due)

    def snapshot(self) -> Snapshot:
        """What the nodes know now."""
        host = self.host
        duals = host.duals(self._usual())
        errors = host.algorithm.node_errors(host.state)
        return Snapshot(
            nodes=host.nodes,
            weights=self._oracle.value_and_gradient(duals)[1],
            duals=duals,
            errors=np.full(host.nodes.size, np.nan) if errors is None else errors[host.nodes],
            activations=host.activations,
            stopped=host.stopped,
            seconds=time.monotonic() - self._began,
        )

    def write(self, path: Path, found: Snapshot) -> None:
        """Write what the nodes know, and the support, to an ``.npz`` file; there is a whole one at any time."""
        with replacing(path) as file:
            arrays: Any = {name: np.asarray(value) for name, value in vars(found).items()}
            np.savez(file, points=self._points, **arrays)

    def _usual(self) -> int:
        """How often a node has acted by now, if all keep the pace."""
        if self.pace.interval == 0:
            return self.host.activations
        return max(0, int((time.monotonic() - self._began) / self.pace.interval))

    def _wait(self) -> float:
        return float(self.pace.interval * (1.0 + self.pace.jitter * self._random.uniform(-1.0, 1.0)))

    async def _until(self, due: float) -> None:
        """Wait, and let the links work, even if there is no time to wait."""
        await asyncio.sleep(0)
        left = due - time.monotonic()
        if left > 0:
            try:
                await asyncio.wait_for(self._asked.wait(), left)
            except TimeoutError:
                return

    def _ending(
        self, seconds: float, duration: float | None, since_converged: float | None, linger: float | None
    ) -> Ending | None:
        if self._asked.is_set():
            return Ending.STOPPED
        if linger is not None and since_converged is not None and since_converged >= linger:
            return Ending.CONVERGED
        if duration is not None and seconds >= duration:
            return Ending.FINISHED
        return None
