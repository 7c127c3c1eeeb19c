"""What a run leaves in its folder while it goes on: one small file, ``live.npz``, for whoever wants to watch it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from barymesh.dashboard.scene import MOST_EDGES, MOST_NODES, NodeState, distances, thinned
from barymesh.errors import FileError
from barymesh.io.atomic import replacing
from barymesh.subsample import MOST_PICTURED, evenly

if TYPE_CHECKING:
    from barymesh.engines.simulation import Simulation
    from barymesh.engines.supervisor import Gathering
    from barymesh.exact.solver import State
    from barymesh.network.topology import Network
    from barymesh.support.points import Support

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

LIVE = "live.npz"
FORMAT = 1
# estimates in the file: of no more than so many numbers in all
MOST_NUMBERS = 500_000
# arrays that are only looked at: half the bytes, and more digits than can be seen
SEEN_ONLY = ("mean", "estimates", "errors", "staleness")
# the file takes at most this share of the run's time, unless it is wanted all the time
SHARE = 0.02


class LiveFile:
    """A callback that keeps ``live.npz`` in a folder up to date while a run goes on, and takes it away at the end.

    Whatever goes wrong with the file, the run goes on without it.

    Parameters
    ----------
    folder
        Where the run will leave its results.
    method
        What runs, for the title of the page.
    until
        How long the run is meant to last, in its own seconds or iterations.
    every
        Seconds between two versions of the file, at least; 0 for one after every record or iteration.

    Examples
    --------
    >>> with LiveFile("out") as live:                                             # doctest: +SKIP
    ...     result = barymesh.barycenter(measures, reg=0.1, network="cycle", callback=live)
    ...     result.save("out/result.npz")
    """

    def __init__(self, folder: str | Path, method: str = "", until: float | None = None, every: float = 1.0) -> None:
        self.path = Path(folder) / LIVE
        self.written = 0
        self.seconds = 0.0
        self._about = {"format": FORMAT, "pid": os.getpid(), "host": socket.gethostname(), "until": until}
        self._method, self._every, self._due = method, every, 0.0
        self._support: Support | None = None
        self._reg = 1.0
        self._made: list[Path] = []
        self._rows: list[tuple[float, float, float]] = []

    def __enter__(self) -> Self:
        # folders that come into being for it, the innermost first
        self._made = [folder for folder in self.path.parents if not folder.exists()]
        self.announce("starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The run is over: take the file away, and its folders too if nothing else has come into them."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def announce(self, phase: str) -> None:
        """Say that there is nothing to see yet, and why: "starting", or "waiting" for another run to end."""
        self._write({"phase": phase, "method": self._method}, {})

    def begin(self, support: Support, reg: float) -> None:
        """Told by the solver without a network, whose states do not tell of the problem."""
        self._support, self._reg = support, reg

    def __call__(self, state: Any) -> None:
        """Write what there is to see, unless it was done a moment ago."""
        from barymesh.exact.solver import State

        if isinstance(state, State):
            # every one of them: nobody else keeps a history
            self._rows.append((float(state.iteration), state.error, state.dual))
        now = time.monotonic()
        if now < self._due:
            return
        facts, arrays = self._of_solver(state) if isinstance(state, State) else _of_network(state)
        self._write({"phase": "running", "method": self._method, **facts}, arrays)
        took = time.monotonic() - now
        self.seconds += took
        self._due = now + (max(self._every, took / SHARE) if self._every else 0.0)

    def _of_solver(self, state: State) -> tuple[dict[str, Any], Arrays]:
        support, size = self._support, len(state.residual)
        if support is None:
            return {}, {}
        table = np.array(self._rows).reshape(-1, 3)
        columns = {"iteration": table[:, 0], "consensus": table[:, 1], "dual_objective": self._reg * table[:, 2]}
        chosen = _pictured(size, support.size)
        own = state.estimates(chosen)
        facts = {"clock": "iteration", "now": state.iteration, "size": size, **_support_facts(support)}
        arrays = {"mean": state.weights, "estimates": own, "pictured": chosen, **_history(columns)}
        return facts, {**arrays, **_points(support)}

    def _write(self, facts: dict[str, Any], arrays: Arrays) -> None:
        small = {name: array.astype(np.float32) if name in SEEN_ONLY else array for name, array in arrays.items()}
        try:
            with replacing(self.path) as file:
                header: Any = np.array(json.dumps({**self._about, **facts}))
                np.savez(file, header=header, **small)  # type: ignore[arg-type]
            self.written += 1
        except FileError:
            # nobody's result depends on it, and a disk that is full now may have room later
            pass


def _of_network(state: Simulation[Any] | Gathering) -> tuple[dict[str, Any], Arrays]:
    from barymesh.engines.simulation import Simulation

    network, virtual = state.network, isinstance(state, Simulation)
    if isinstance(state, Simulation):
        problem, history = state.recorder.problem, state.recorder.history
        estimates, states, staleness = state.recorder.estimates, _simulated(state), _simulated_staleness(state)
    else:
        problem, history = state.problem, state.history
        estimates, states, staleness = state.node_weights, np.full(network.size, NodeState.WORKING), None
    here = states != NodeState.LEFT
    # those who cannot take part cannot come to agree either
    counted = here & (states != NodeState.DEAD) if (states != NodeState.DEAD).any() else here
    weights = np.where(counted, problem.weights[: network.size], 0.0)
    mean = weights @ estimates / weights.sum()
    shown, chosen = evenly(network.size, MOST_NODES), _pictured(network.size, problem.support.size)
    facts = {
        "clock": "time", "virtual": virtual, "now": state.now, "size": network.size, "links": len(network.edges),
        "network": network.name, "activations": state.activations, "messages": state.messages, "bytes": state.bytes,
        **_support_facts(problem.support),
    }  # fmt: skip
    return facts, {
        "mean": mean,
        "estimates": estimates[chosen],
        "pictured": chosen,
        "shown": shown,
        "errors": np.where(here, distances(estimates, mean), np.nan)[shown],
        "states": states[shown].astype(str),
        **_edges(network, staleness),
        **_history(history.columns),
        **_points(problem.support),
    }


def _simulated(run: Simulation[Any]) -> NDArray[Any]:
    """The state of every node, ``(m,)``."""
    size, faults = run.network.size, run.faults
    states = np.full(size, NodeState.WORKING, dtype=object)
    states[np.resize(run.method.stopped(run.state), size)] = NodeState.CONVERGED
    states[_within(faults.idle, faults.idle_first, run.now)] = NodeState.ASLEEP
    states[_within(faults.deaf, faults.deaf_first, run.now)] = NodeState.DEAD
    states[~run.plan.after(run.events_done)[0]] = NodeState.LEFT
    return states


def _simulated_staleness(run: Simulation[Any]) -> Floats:
    from barymesh.engines.simulation import SynchronousSimulation

    if isinstance(run, SynchronousSimulation):
        # everybody waits until everything has arrived
        return np.zeros(run.network.neighbours.size)
    return run.mail.staleness(run.now)


def _within(spans: Floats, first: NDArray[np.intp], now: float) -> NDArray[np.intp]:
    """The nodes one of whose ``spans (start, stop)`` it is now."""
    owners = np.repeat(np.arange(first.size - 1), np.diff(first))
    return owners[(spans[:, 0] <= now) & (now < spans[:, 1])] if spans.size else owners


def _edges(network: Network, staleness: Floats | None) -> Arrays:
    """Edges to be drawn, and the staleness of each: that of its worse direction."""
    if network.size > MOST_NODES:
        return {}
    kept = evenly(len(network.edges), MOST_EDGES)
    arrays: Arrays = {"edges": network.edges[kept].astype(np.int32)}
    if staleness is not None:
        receivers = np.repeat(np.arange(network.size), np.diff(network.offsets))
        worse = np.maximum(staleness, staleness[network.reverse])
        arrays["staleness"] = worse[receivers < network.neighbours][kept]
    if network.known_positions is not None:
        arrays["positions"] = network.known_positions
    return arrays


def _pictured(size: int, points: int) -> NDArray[np.intp]:
    return evenly(size, max(1, min(MOST_PICTURED, MOST_NUMBERS // points)))


def _history(columns: Any) -> Arrays:
    return {f"history_{name}": column for name, column in thinned(columns).items()}


def _support_facts(support: Support) -> dict[str, Any]:
    grid = support.grid
    return {"grid": grid and [grid.shape, grid.lower, grid.upper]}


def _points(support: Support) -> Arrays:
    return {} if support.grid is not None else {"points": support.points}
