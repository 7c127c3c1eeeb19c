"""The exact solver on a Ray cluster, without a network: every shard of the nodes is an actor, and the caller adds up.

Ray places and supervises the actors; calls go over lines of their own (shard_line.py).
An actor that is lost, with its machine or without, is started again where there is room. It continues from its last
snapshot, if it finds one, and repeats the calls since then, which are deterministic: the run goes on as if nothing had
happened, to the last bit.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.checks import normalised
from barymesh.engines.ray import LOOPBACK, PINNED, bracketed, connected, end_actor, got
from barymesh.engines.shard_host import Loading, ShardHost, ShardPlace
from barymesh.engines.shard_line import CallerEnd, LineContact, LineError, ShardEnd
from barymesh.engines.supervisor import MOST_STARTS
from barymesh.errors import NetworkError, OptionError, warn
from barymesh.exact.free_support import solve_free_support
from barymesh.exact.run import solve_nodes
from barymesh.exact.shards import Shard, Shards
from barymesh.exact.start import start_potentials
from barymesh.extras import needs
from barymesh.measures import Measure
from barymesh.measures.absent import Absent
from barymesh.measures.lazy import LazyMeasures
from barymesh.options import RunOptions
from barymesh.problem import Problem
from barymesh.resources.cores import available_cores
from barymesh.result import Result

with needs("ray"):
    import ray
    from ray.exceptions import ObjectLostError, RayActorError

# results of at most so many numbers have the estimates and potentials of all nodes
GATHERED = 2**24
# the calls that are kept, to be repeated by a shard without a snapshot, take at most about so many bytes
LOG_BYTES = 2**29
# seconds that a shard which is started again waits for cores of its own: starting a process takes a few
ROOM = 30.0


def run_shards(problem: Problem, options: RunOptions) -> Result:
    """Compute the barycenter on a Ray cluster, and certify it."""
    began = time.perf_counter()
    with connected(options.address, options.workers or available_cores()) as own:
        folder, run = options.checkpoint or options.folder or own, uuid.uuid4().hex
        host = None if own is None else LOOPBACK
        work = assigned(problem, options.workers)
        shards: list[RemoteShard] = []
        try:
            for at_a_place in (True, False):
                shards += [
                    RemoteShard(number, problem, one, folder, run, host)
                    for number, one in enumerate(work)
                    if (one.at is not None) is at_a_place
                ]
                # the others must not take the cores at these places
                if at_a_place and shards:
                    ray.wait([shard.there for shard in shards], num_returns=len(shards))
            shards.sort(key=lambda shard: shard.number)
            found = _computed(problem, shards, options)
        finally:
            for shard in shards:
                shard.end()
    return replace(found, seconds=time.perf_counter() - began)


def _computed(problem: Problem, shards: list[RemoteShard], options: RunOptions) -> Result:
    problem = _loaded(problem, shards, options.checkpoint if options.resume else None)
    nodes = Shards(shards, problem.support.size, problem.reg)
    gather = nodes.count * nodes.size <= GATHERED
    how: dict[str, Any] = {
        "max_iter": options.max_iter, "tol": options.tol, "callback": options.callback,
        "progress": bool(options.progress), "gather": gather,
    }  # fmt: skip
    if problem.free is not None:
        found = solve_free_support(problem, nodes, start=options.start, **how)
    else:
        first = start_potentials(options.start, problem)
        if first is not None:
            nodes.set_potentials(first / problem.reg)
        anew = options.start is None and not options.resume
        found = solve_nodes(nodes, problem.support, problem, anew=anew, method=options.method, **how)
        found = replace(found, problem=problem.without_oracles())
    if options.checkpoint is not None:
        for wait in [shard.keep(options.checkpoint) for shard in shards]:
            wait()
    return found


def _loaded(problem: Problem, shards: list[RemoteShard], resumed: str | Path | None) -> Problem:
    """Have all shards load their measures, and tell them their places. The problem, with the weights of all."""
    loadings = [wait() for wait in [shard.load() for shard in shards]]
    for category, text in dict.fromkeys(message for loading in loadings for message in loading.messages):
        warn(text, category)
    many = any(isinstance(measure, LazyMeasures) for measure in problem.measures)
    weights = normalised(np.concatenate([loading.weights for loading in loadings])) if many else problem.weights
    first = 0
    for shard, loading in zip(shards, loadings, strict=True):
        shard.count = loading.weights.size
        shard.place = ShardPlace(first, weights.size, weights[first : first + shard.count])
        first += shard.count
    for wait in [shard.begin(resumed) for shard in shards]:
        wait()
    if not many:
        return problem
    absent: Measure = Absent()
    return replace(problem, measures=[absent] * weights.size, weights=weights)


# ---- who does what


@dataclass(frozen=True)
class ShardWork:
    """The ``measures`` of a shard with their ``weights``, the number of the ``first`` as they were given, where they
    are, if that matters, and its ``threads``."""

    first: int
    measures: list[Measure]
    weights: list[float]
    at: str | None
    threads: int


def assigned(problem: Problem, workers: int | None) -> list[ShardWork]:
    """The shards, in the order of the measures: by default one for each machine, with all its cores; at least one for
    measures that follow one another at one place."""
    machines = [machine for machine in ray.nodes() if machine["Alive"] and machine["Resources"].get("CPU", 0) >= 1]
    cores = [int(machine["Resources"]["CPU"]) for machine in machines]
    wanted = workers or max(len(machines), 1)
    items = list(enumerate(_split_datasets(problem, wanted)))
    addresses = {machine["NodeManagerAddress"] for machine in machines}
    runs = [(at, list(run)) for at, run in groupby(items, lambda item: getattr(item[1][0], "at", None))]
    shares = []
    for at, run in runs:
        if at is not None and at not in addresses:
            raise OptionError(
                f"{run[0][1][0]!r} is at {at}, which is no machine of the Ray cluster; those are "
                f"{', '.join(sorted(addresses))}."
            )
        parts = min(max(1, round(wanted * len(run) / len(items))), len(run))
        shares += [(at, [run[k] for k in part]) for part in np.array_split(np.arange(len(run)), parts)]
    places = Counter(at for at, _ in shares if at is not None)

    def fits(each: int) -> bool:
        """Whether there is room for all shards with so many threads each."""
        room: Counter[str] = Counter()
        for machine, own in zip(machines, cores, strict=True):
            room[machine["NodeManagerAddress"]] += own // each
        return room.total() >= len(shares) and all(room[at] >= count for at, count in places.items())

    if not fits(1):
        raise OptionError(
            f"{len(shares)} workers need as many cores, and the Ray cluster has {sum(cores)}. Give fewer workers, or "
            "add cores; measures that follow one another at one place need a worker, and a core there."
        )
    threads = max(each for each in range(1, max(cores) + 1) if fits(each))
    return [
        ShardWork(share[0][0], [one for _, (one, _) in share], [weight for _, (_, weight) in share], at, threads)
        for at, share in shares
    ]


def _split_datasets(problem: Problem, parts: int) -> Sequence[tuple[Measure, float]]:
    """The measures with their weights, datasets in so many parts."""
    found: list[tuple[Measure, float]] = []
    for measure, weight in zip(problem.measures, problem.weights, strict=True):
        split = measure.split(parts) if isinstance(measure, LazyMeasures) else [measure]
        found += [(one, float(weight)) for one in split]
    return found


# ---- a shard, in the process of the caller


class RemoteShard(Shard):
    """A shard on an actor, which listens at ``host``, None for the address of its machine. ``log``: all calls, which a
    new actor repeats; the first ``dropped`` are forgotten, and the last after ``sent`` wait for one with an answer."""

    place: ShardPlace

    def __init__(
        self, number: int, problem: Problem, work: ShardWork, folder: str | Path | None, run: str, host: str | None
    ) -> None:
        own = problem.with_measures(work.measures, np.array(work.weights))
        # weights are compared with those of other shards
        self.problem = replace(own, weights=np.array(work.weights), first=work.first)
        self.number, self.work, self.folder, self.run, self.host = number, work, folder, run, host
        self.line: CallerEnd | None = None
        self.log: list[tuple[str, tuple[Any, ...]]] = []
        self.sent = self.dropped = self.bytes = self.losses = 0
        self.resumed: str | Path | None = None
        self.probe: Any = None
        self._start(room=True)

    def _start(self, *, room: bool) -> None:
        """Start the actor; ``room``: it has cores of its own."""
        at, threads = self.work.at, self.work.threads
        self.probe = None
        self.actor = (
            ray.remote(RemoteHost)
            .options(
                num_cpus=threads if room else 0,
                scheduling_strategy="SPREAD" if at is None else "DEFAULT",
                resources={} if at is None else {f"node:{at}": PINNED},
            )
            .remote(self.number, self.problem, threads, self.folder, self.run)
        )
        self.there = self.actor.is_there.remote()

    def load(self) -> Callable[[], Loading]:
        """Load its measures; what waits for that."""
        return partial(self._answer, partial(got, self.actor.load.remote()))

    def begin(self, resumed: str | Path | None) -> Callable[[], int]:
        """Begin at its ``place``, perhaps with the potentials that an earlier run has kept."""
        self.resumed = resumed
        return partial(self._answer, partial(self._begun, self.actor.begin.remote(self.place, resumed)))

    def _begun(self, beginning: Any) -> int:
        """Wait until it has begun, and open the line; the number of the last call that it knows of."""
        done: int = got(beginning)
        self.line = CallerEnd(got(self.actor.listen.remote(self.host)))
        return done

    def keep(self, folder: str | Path) -> Callable[[], None]:
        """Keep its potentials for a later run."""
        # its answer shows that all calls before are carried out
        self.submit("total")()

        def again() -> None:
            self._repeated()
            got(self.actor.keep.remote(folder))

        return partial(self._answer, partial(got, self.actor.keep.remote(folder)), again)

    def submit(self, method: str, *arguments: Any) -> Callable[[], Any]:
        self.queue(method, *arguments)
        return partial(self._answer, self._send())

    def queue(self, method: str, *arguments: Any) -> None:
        self.log.append((method, arguments))
        self.bytes += sum(getattr(argument, "nbytes", 0) for argument in arguments)
        if self.bytes > LOG_BYTES and self.sent > self.dropped + 1:
            half = (self.sent - self.dropped) // 2
            self.dropped, self.log, self.bytes = self.dropped + half, self.log[half:], self.bytes // 2

    def _send(self) -> Callable[[], Any]:
        """Send the calls that have not been sent, together; what waits for the answer to the last."""
        assert self.line is not None
        first, self.sent = self.sent, self.dropped + len(self.log)
        self.line.send(first + 1, self.log[first - self.dropped :])
        return partial(self.line.answer, self._look)

    def _look(self) -> None:
        """RayActorError if the actor is lost."""
        if self.probe is None:
            self.probe = self.actor.is_there.remote()
        # one that is stopped neither answers nor is lost
        if ray.wait([self.probe], timeout=0)[0]:
            probe, self.probe = self.probe, None
            got(probe)

    def _answer(self, wait: Callable[[], Any], again: Callable[[], Any] | None = None) -> Any:
        """What a wait returns, whatever becomes of the actor meanwhile; ``again``: for the same from a new one, if that
        is more than the answer to the last call."""
        while True:
            try:
                return wait()
            except (RayActorError, ObjectLostError, LineError) as error:
                self.losses += 1
                if self.losses == MOST_STARTS:
                    raise NetworkError(
                        f"Shard {self.number} was lost {MOST_STARTS} times. The last: {' '.join(str(error).split())}"
                    ) from error
                wait = again or self._repeated

    def _repeated(self) -> Any:
        """Start the actor again, and repeat what it has not done; the answer to the last call."""
        ray.kill(self.actor)
        self._hang_up()
        self._start_again()
        loading = got(self.actor.load.remote())
        if not hasattr(self, "place"):
            return loading
        done = self._begun(self.actor.begin.remote(self.place, self.resumed))
        if done < self.dropped:
            raise NetworkError(
                f"Shard {self.number} was lost with its snapshots, after so many iterations that they cannot be "
                "repeated. Name a folder= that all machines share, or continue from a checkpoint."
            )
        self.sent = done
        return self._send()() if self.log else done

    def _start_again(self) -> None:
        """On cores of its own if there are any."""
        at, room = self.work.at, ray.available_resources().get("CPU", 0) >= self.work.threads
        self._start(room=room)
        # they may be on several machines, or on one that is lost
        if room and not ray.wait([self.there], timeout=ROOM)[0]:
            ray.kill(self.actor)
            self._start(room=False)
        while not ray.wait([self.there], timeout=1.0)[0]:
            if at is not None and at not in {one["NodeManagerAddress"] for one in ray.nodes() if one["Alive"]}:
                raise NetworkError(
                    f"Shard {self.number} was lost with its machine, {at}, where its measures are. Start Ray there "
                    "again, and continue from a checkpoint."
                )

    def _hang_up(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None

    def end(self) -> None:
        """End the actor, and leave nothing behind."""
        end_actor(self.actor, self.there)
        self._hang_up()


class RemoteHost(ShardHost):
    """A shard as an actor."""

    def listen(self, host: str | None) -> LineContact:
        """Listen for calls; where."""
        return ShardEnd(self.call, bracketed(host or ray.util.get_node_ip_address())).contact

    def is_there(self) -> None:
        """It is, if there is an answer."""
