"""How long messages take. A delay is drawn for each message and directed edge, from its address alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, real_number
from barymesh.core.kernels import CATEGORICAL, LOG_NORMAL, SPACED, TICKS, TRACE
from barymesh.core.times import TICK, whole_ticks
from barymesh.errors import OptionError
from barymesh.io.limits import require_regular
from barymesh.network.topology import Network

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# longer delays, in ticks, do not fit the fast lookup of messages
LONGEST = 2**28


@dataclass(frozen=True)
class DelayTable:
    """A delay in the form the kernels read: ``law`` holds a kind, a count K, and numbers by kind.

    SPACED: a shortest delay and a step; K delays, each that step above the last, equally likely. CATEGORICAL: K values
    and their K cumulative probabilities. LOG_NORMAL: median and sigma. TRACE: K recorded delays, of which edge e plays
    the ``trace[e] % 2^32`` from number ``trace[e] // 2^32`` on. ``offset (edges,)`` is added to every draw, unless it
    is empty. All are seconds, in whole ticks. No delay is below ``shortest`` or above ``longest``.
    """

    law: Floats
    offset: Floats
    trace: NDArray[np.int64]
    shortest: float
    longest: float

    @property
    def simple(self) -> bool:
        """Whether the fast lookup of messages can draw these."""
        return bool(self.law[0] == SPACED and self.offset.size == 0 and self.longest * TICKS < LONGEST)


class Delay(ABC):
    """The time from sending a message to having it, in seconds."""

    @abstractmethod
    def table(self, network: Network) -> DelayTable:
        """The delays of all directed edges, in the order of ``network.neighbours``: receiver by receiver."""


@dataclass(frozen=True)
class Categorical(Delay):
    """One of some values, at random; the default is the paper's. As text: ``"categorical"``.

    Parameters
    ----------
    values : tuple of float, default=(0.2, 0.4, 0.6, 0.8, 1.0)
        Seconds.
    probabilities : tuple of float, optional
        Of each value; equally likely by default.
    """

    values: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    probabilities: tuple[float, ...] | None = None

    def table(self, network: Network) -> DelayTable:
        values = _seconds(self.values, "The values (seconds) of a categorical delay")
        shares = np.full(values.size, 1 / values.size)
        if self.probabilities is not None:
            shares = as_floats(self.probabilities, "The probabilities of a categorical delay", OptionError)
            if shares.shape != values.shape or not (shares >= 0).all() or not abs(shares.sum() - 1) < 1e-9:
                raise OptionError(
                    f"The probabilities of a categorical delay are {self.probabilities}; give one for each of the "
                    f"{values.size} values, not negative, with sum 1."
                )
        steps = np.diff(values)
        if np.ptp(shares) < 1e-12 and (values.size == 1 or (np.ptp(steps) < 1e-9 and steps[0] > 0)):
            return _spaced(values[0], steps[0] if steps.size else 0.0, values.size)
        kept = shares > 0
        values, levels = np.asarray(whole_ticks(values[kept])), np.cumsum(shares[kept])
        levels[-1] = 1.0
        return _table(CATEGORICAL, values.size, [*values, *levels], float(values.min()), float(values.max()))


@dataclass(frozen=True)
class Constant(Delay):
    """Always the same. As text: ``"constant:seconds=0.1"``.

    Parameters
    ----------
    seconds : float, default=0.2
        How long.
    """

    seconds: float = 0.2

    def table(self, network: Network) -> DelayTable:
        return Categorical((self.seconds,)).table(network)


@dataclass(frozen=True)
class Uniform(Delay):
    """Anything between two numbers, equally likely. As text: ``"uniform:low=0.1,high=0.5"``.

    Parameters
    ----------
    low, high : float, default=0 and 1
        Seconds.
    """

    low: float = 0.0
    high: float = 1.0

    def table(self, network: Network) -> DelayTable:
        ends = _seconds((self.low, self.high), "The ends (seconds) of a uniform delay")
        if ends[0] > ends[1]:
            raise OptionError(f"A uniform delay has low={self.low} above high={self.high}; swap them.")
        return _spaced(ends[0], TICK, max(1, int((ends[1] - ends[0]) * TICKS)))


@dataclass(frozen=True)
class LogNormal(Delay):
    """Mostly near the median, sometimes far above. As text: ``"lognormal:median=0.3,sigma=0.5"``.

    It is ``median * exp(sigma z)`` seconds, with z standard normal.

    Parameters
    ----------
    median : float, default=0.4
        Seconds; half of the messages take longer.
    sigma : float, default=0.5
        How far they spread.
    """

    median: float = 0.4
    sigma: float = 0.5

    def table(self, network: Network) -> DelayTable:
        _seconds((self.median, self.sigma), "The median (seconds) and sigma of a log-normal delay")
        return _table(LOG_NORMAL, 2, (self.median, self.sigma), 0.0, np.inf)


@dataclass(frozen=True)
class PerEdge(Delay):
    """A delay for each link.

    Parameters
    ----------
    seconds : array (m, m), or mapping from (sender, receiver) to float
        How long messages take on each link; a pair stands for both directions, unless both are named.
    default : float, default=0.2
        For links that are not named.
    jitter : Delay, default=Constant(0.0)
        A further delay added to each message.

    Examples
    --------
    >>> from barymesh.scenario import PerEdge, Uniform
    >>> far = PerEdge({(0, 1): 2.0}, default=0.1, jitter=Uniform(0, 0.05))
    """

    seconds: ArrayLike | Mapping[tuple[int, int], float]
    default: float = 0.2
    jitter: Delay = field(default_factory=lambda: Constant(0.0))

    def table(self, network: Network) -> DelayTable:
        base = self.jitter.table(network)
        receiver = np.repeat(np.arange(network.size), np.diff(network.offsets))
        sender = network.neighbours
        if isinstance(self.seconds, Mapping):
            default = real_number(self.default)
            _require_pairs(self.seconds)
            pairs = {**{(b, a): value for (a, b), value in self.seconds.items()}, **self.seconds}
            known = set(zip(sender.tolist(), receiver.tolist(), strict=True))
            unknown = [pair for pair in self.seconds if pair not in known]
            if unknown:
                raise OptionError(
                    f"A delay is given for {unknown[0]}, which is not an edge of the network. Leave it out."
                )
            offset = np.array(
                [pairs.get(pair, default) for pair in zip(sender.tolist(), receiver.tolist(), strict=True)]
            )
        else:
            matrix = as_floats(self.seconds, "The delays per edge", OptionError)
            if matrix.shape != (network.size, network.size):
                raise OptionError(
                    f"The delays per edge have shape {matrix.shape}; the network has {network.size} nodes, so "
                    f"({network.size}, {network.size}) is needed."
                )
            offset = matrix[sender, receiver]
        offset = whole_ticks(_seconds(offset, "The delays per edge (s)")) + (base.offset if base.offset.size else 0.0)
        shortest = base.shortest + float(offset.min() if offset.size else 0.0)
        return DelayTable(base.law, offset, base.trace, shortest, base.longest + float(offset.max(initial=0.0)))


@dataclass(frozen=True)
class Trace(Delay):
    """Recorded delays, used in turn by every edge from a place of its own, over and over.

    As text, in a configuration file: ``"trace:seconds=ping.csv"``.

    Parameters
    ----------
    seconds : array, path, or mapping from (sender, receiver) to array
        The recording; a file with one delay a line; or a recording for each edge.
    """

    seconds: ArrayLike | Mapping[tuple[int, int], ArrayLike] | Path

    def table(self, network: Network) -> DelayTable:
        edges = network.neighbours.size
        receiver = np.repeat(np.arange(network.size), np.diff(network.offsets))
        if isinstance(self.seconds, Mapping):
            _require_pairs(self.seconds)
            records = {pair: _seconds(np.asarray(part), f"The trace of {pair}") for pair, part in self.seconds.items()}
            pairs = list(zip(network.neighbours.tolist(), receiver.tolist(), strict=True))
            missing = [pair for pair in pairs if pair not in records]
            if missing:
                raise OptionError(
                    f"There is no recorded delay from node {missing[0][0]} to node {missing[0][1]}. "
                    "Give one for each direction of each edge, or one list for all."
                )
            values = np.concatenate([records[pair] for pair in pairs] or [np.empty(0)])
            count = np.array([records[pair].size for pair in pairs], dtype=np.intp)
            first = np.cumsum(count) - count
        else:
            source = self.seconds
            if isinstance(source, str | Path):
                try:
                    if Path(source).exists():
                        require_regular(Path(source))
                    # opened here, because NumPy would unpack it, or fetch it from an address
                    with open(source, encoding="utf-8-sig") as file:
                        source = np.loadtxt(file, ndmin=1, delimiter=",", usecols=-1)
                except (OSError, ValueError) as error:
                    raise OptionError(
                        f"The trace {self.seconds} cannot be read as one delay a line: {error}."
                    ) from error
            values = _seconds(source, "The recorded delays (seconds)")
            first, count = np.zeros(edges, dtype=np.intp), np.full(edges, values.size, dtype=np.intp)
        values = np.asarray(whole_ticks(values))
        # without an edge there is nothing to delay
        ends = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        table = _table(TRACE, values.size, values, *ends)
        return replace(table, trace=first.astype(np.int64) << 32 | count)


def _require_pairs(given: Mapping[Any, Any]) -> None:
    for key in given:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise OptionError(f"A delay is given for {key!r}; name an edge by its two nodes, such as (0, 1).")


def _spaced(low: float, step: float, count: int) -> DelayTable:
    low, step = float(whole_ticks(low)), float(whole_ticks(step))
    return _table(SPACED, count, [low, step], low, low + (count - 1) * step)


def _table(kind: int, count: int, numbers: Iterable[float], shortest: float, longest: float) -> DelayTable:
    law = np.array([kind, count, *numbers], dtype=float)
    return DelayTable(law, np.empty(0), np.empty(0, dtype=np.int64), shortest, longest)


def _seconds(values: ArrayLike, what: str) -> Floats:
    """Finite, not negative, at least one."""
    seconds = np.atleast_1d(as_floats(values, what, OptionError))
    if seconds.size == 0:
        raise OptionError(f"{what}: there are none; give at least one.")
    bad = ~(np.isfinite(seconds) & (seconds >= 0))
    if bad.any():
        raise OptionError(f"{what}: {seconds[bad][0]} is not a finite number, 0 or more.")
    return seconds


DELAYS: dict[str, type[Delay]] = {
    "categorical": Categorical,
    "constant": Constant,
    "uniform": Uniform,
    "lognormal": LogNormal,
    "per_edge": PerEdge,
    "trace": Trace,
}
