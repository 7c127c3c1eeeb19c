"""Every option of ``barymesh.barycenter``, in one place.

A new option is one field, with its default, where it applies and its reader, and one entry of the docstring. The
signature of ``barycenter``, its documentation, the keys of configuration files and the flags of the command line follow
from them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from barymesh import readers as read
from barymesh.cost import SQUARED, CostLike
from barymesh.errors import OptionError
from barymesh.method_names import DEBIASED_METHODS, EXACT_METHODS, NETWORK_METHODS
from barymesh.options import network_readers as read_network
from barymesh.options.model import Model, details, option

if TYPE_CHECKING:
    from barymesh.gradients.batch_size import BatchSize
    from barymesh.record import Callback
    from barymesh.result import Result
    from barymesh.scenario import Delay, Event, Fault, Schedule

# where a barycenter is computed: without a network, here or on a cluster; or on one, with one of these engines
EXACT, CLUSTER = "exact", "cluster"
ENGINES = ("simulation", "processes", "ray")
WORKERS = ("processes", "ray")


@dataclass(frozen=True, kw_only=True)
class RunOptions(Model):
    """How to run a method.

    Parameters
    ----------
    method : str, default="sinkhorn"
        The algorithm: ``"sinkhorn"``, or ``"rounds"`` (slower, with few messages, proven to converge), or, on a network
        only, ``"a2dwb"`` (the paper's), ``"a2dwb_naive"``, ``"dcwb"`` (synchronous), ``"a2dwb_conserving"`` (the
        paper's, made to end at the barycenter) or ``"gossip_sinkhorn"`` (another paper's). ``"sinkhorn"`` is
        Sinkhorn iteration in the dual, accelerated; every step is checked to do at least as well as a plain one. On a
        network it is asynchronous and decentralised, and works in rounds where it must.
    engine : str, default="simulation"
        Where a network runs: ``"simulation"``, ``"processes"`` or ``"ray"``. A simulation has virtual time, and repeats
        to the last bit. Processes on this machine talk through sockets, as fast as they can; programs that use them
        need the usual ``if __name__ == "__main__":``. Ray is the same on the machines of a cluster, through encrypted
        links. Without a network ``"ray"`` is the exact solver on a cluster: each worker holds a shard of the measures,
        and the caller adds up.
    tol : float, default=1e-6
        Stop once the measures' own estimates agree with the barycenter to this tolerance (mean L1 distance). On a
        network only ``"sinkhorn"`` and ``"rounds"`` stop by themselves, once every node is within it; the other
        methods, ``tol=0``, and samples that grow use the whole duration, and their status is OUT_OF_TIME.
    max_iter : int, default=5000
        Iterations of the exact solver at most. A run on a network has a ``duration`` instead.
    start : Result, optional
        A previous Result on the same support, to continue from its potentials, though data may have changed since.
        Measures with labels are recognised by them, so that some may leave and others come; without labels there must
        be as many. On a network for ``"sinkhorn"`` and ``"rounds"``.
    duration : float, default=60
        Seconds to run at most, virtual in a simulation. This and the following options are for runs on a network.
    record_every : float, default=1
        Seconds between rows of ``result.history``, virtual in a simulation.
    reference : bool or array, default=False
        Whether to compare with the true barycenter, in the columns ``tv`` and ``dual_error`` of the history. Its
        weights, if they are known, else True to compute it: from ``samples`` draws of each measure that can only be
        sampled.
    step : float or "theory", optional
        Step size of the methods that need one. By default ``reg / lambda_max`` of the network's Laplacian, which no
        theorem covers with stale messages; ``"theory"`` is the one the paper's theorem allows, and far smaller.
    batch : int, "exact" or GrowingBatch, optional
        Samples drawn for each gradient, all of the measure, or the paper's growing rule ``"growing:epsilon=0.1"``. By
        default 10. For the two kinds of Sinkhorn a number means a sample that grows by so many at each activation; by
        default they use all of a measure, and 100 new samples of one that can only be sampled.
    masks : bool, default=False
        Whether nodes mask what they report, so that nobody, neither neighbours nor the root, can read anything but the
        sum over all nodes. For ``"rounds"``. Here one owner has all keys; between organisations each has its own.
    delays : Delay or str, default="categorical"
        How long messages take: ``"categorical"`` (the paper's, 0.2 to 1 s), ``"constant:seconds=0.1"``,
        ``"uniform:low=0.1,high=0.5"``, ``"lognormal:median=0.3,sigma=0.5"``. Or an object of ``barymesh.scenario``.
        Simulation only.
    schedule : Schedule or str, default="windowed"
        When nodes act: ``"windowed"`` (the paper's), ``"poisson:rate=5"``, ``"periodic:period=0.2,jitter=0.1"``; the
        last two take ``slow_share=0.1,slowdown=10`` for stragglers. Simulation only.
    faults : list
        What goes wrong: ``"loss:probability=0.2"``, ``"duplication:probability=0.1"``,
        ``"reordering:probability=0.1,extra=1"``, ``"sleep:node=3,start=10,stop=20"``,
        ``"crash:node=3,start=10,stop=20,memory=false"``, ``"link_down:first=0,second=1,start=5,stop=9"``. Or objects of
        ``barymesh.scenario``. Simulation only.
    events : list
        Planned changes: ``"leave:node=3,at=20"``, ``"join:node=4,at=30"``. Or objects of ``barymesh.scenario``, such as
        ``NewData(node=5, at=10, measure=...)``. For ``"sinkhorn"`` in a simulation only.
    snapshots : bool, default=False
        Whether to keep some nodes' estimates at every record, for ``result.animate``. Simulation only.
    checkpoint : path, optional
        Write the whole state of the run there at its end or on Ctrl-C: a file, in a simulation; without a network, on
        Ray, a folder that all machines share, for the potentials.
    resume : bool, default=False
        Whether to continue from the checkpoint.
    workers : int, optional
        The number of processes that share the nodes. By default one for each core; without a network one for each
        machine, with all its cores. For processes and Ray.
    interval : float, default=0
        Seconds between two activations of a node in a worker; 0 for as often as it can. For processes and Ray.
    address : str, optional
        The Ray cluster, such as ``"10.0.0.1:6379"``. By default the one this process is connected to, else one started
        for this run on this machine.
    folder : path, optional
        Where workers of Ray keep their state, each on its own machine. By default a folder for temporary files. In one
        that all machines share, without a network, a worker whose machine was lost finds it too.
    callback : function, optional
        Called with a ``Record`` after every iteration, or every record of a run on a network. Return True to stop.
    progress : bool, optional
        Whether to show progress. By default only if there is a terminal or a notebook to show it in.
    """

    method: str = option("sinkhorn", reader=read.one_of(*NETWORK_METHODS))
    engine: str = option("simulation", *ENGINES, CLUSTER, reader=read.one_of(*ENGINES))
    tol: float = option(1e-6, reader=read.not_negative)
    max_iter: int = option(5000, EXACT, CLUSTER, reader=read.count)
    start: Result | None = option(None, reader=read_network.result, text=False)
    duration: float = option(60.0, *ENGINES, reader=read.positive)
    record_every: float = option(1.0, *ENGINES, reader=read.positive)
    reference: bool | ArrayLike | Any = option(False, *ENGINES, reader=read.reference)
    step: float | str | None = option(None, *ENGINES, reader=read.step)
    batch: BatchSize | None = option(None, *ENGINES, reader=read_network.batch)
    masks: bool = option(False, *ENGINES, reader=read.boolean)
    delays: Delay | str = option("categorical", "simulation", reader=read_network.delays)
    schedule: Schedule | str = option("windowed", "simulation", reader=read_network.schedule)
    faults: Sequence[Fault | str] = option((), "simulation", reader=read_network.faults)
    events: Sequence[Event | str] = option((), "simulation", reader=read_network.events)
    snapshots: bool = option(False, "simulation", reader=read.boolean)
    checkpoint: str | Path | None = option(None, "simulation", CLUSTER, reader=read.path, text=False)
    resume: bool = option(False, "simulation", CLUSTER, reader=read.boolean, text=False)
    workers: int | None = option(None, *WORKERS, CLUSTER, reader=read.count)
    interval: float = option(0.0, *WORKERS, reader=read.interval)
    address: str | None = option(None, "ray", CLUSTER, reader=read.cluster)
    folder: str | Path | None = option(None, "ray", CLUSTER, reader=read.path)
    callback: Callback | None = option(None, reader=read.function, text=False)
    progress: bool | None = option(None, reader=read.boolean, text=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume and self.checkpoint is None:
            raise OptionError("resume=True needs checkpoint=, the file to continue from.")


@dataclass(frozen=True)
class Options(RunOptions):
    """The options of ``barymesh.barycenter``.

    Parameters
    ----------
    measures : list or array
        A list of measures (Gaussian, Mixture, Empirical, Histogram, Image, frozen ``scipy.stats`` distributions,
        functions ``(size, rng) -> samples``, arrays of samples ``(N, d)``), in any mix; or one array: ``(m, n)`` for
        histograms on the support, one a row, or ``(m, *shape)`` for images. ``Lazy(path)`` and ``Lazy(function,
        *arguments)`` are loaded only by the process or the machine that hosts their node; so are ``LazyMeasures``, many
        at a time, and a ``ray.data.Dataset`` with a measure in each row.
    support : array (n, d), Support, FreeSupport, str or None, default=None
        Where the barycenter lives: points ``(n, d)``, a ``Support``, a grid as count:lower:upper for each axis, joined
        by commas (``"100:-5:5"``, ``"64:0:1,64:0:1"``), a file of points (.csv, .npy), or ``"auto"``, chosen from the
        data; or points that move, a ``FreeSupport`` or its text (``"free:n=200"``). By default the measures' common
        points if they have some, else chosen from the data. The reason for a choice is shown with progress, and kept
        in ``result.support.reason``.
    reg : float
        Entropic regularisation, in units of the cost. Smaller is sharper and slower.
    relative_reg : bool, default=False
        Whether ``reg`` is a multiple of the median cost. 0.01 is a good start then.
    weights : array (m,) or "size", optional
        Importance of each measure. Normalised to sum 1; uniform by default. ``"size"``: by the number of records, for
        measures that are samples.
    cost : str, function or array (n, N), default="sqeuclidean"
        The cost of moving mass: ``"sqeuclidean"``, ``"euclidean"``, or another metric of ``scipy.spatial.distance``.
        Or a function ``(support, atoms) -> matrix``, or, for histograms, a matrix ``(n, N)``.
    seed : int, default=0
        Seed of everything random.
    samples : int, default=1000
        Draws of each measure that can only be sampled. They depend on (seed, node) alone. On a network such a measure
        is known by samples that grow instead, see ``batch``.
    debias : bool, default=False
        Whether to find the debiased barycenter, of the Sinkhorn divergences ``W_reg(p, mu_i) - W_reg(p, p)/2 -
        W_reg(mu_i, mu_i)/2``, which does not have the blur of ``reg``. On a network for ``"sinkhorn"`` and
        ``"rounds"``.
    precision : str, default="float64"
        Arithmetic inside the oracles: ``"float64"`` or ``"float32"``. float32 is faster and good to about 1e-5.
    output : str, default="numpy"
        The kind of arrays that come out: ``"numpy"``, or ``"like"`` for that of the measures given, which may be arrays
        of torch, JAX or CuPy.
    network : str, Network, graph, array, path or None, default=None
        The network of the nodes: a name with or without arguments (``"cycle"``, ``"erdos_renyi:p=0.05"``), or a file of
        edges.
        Or a ``Network``, a ``networkx.Graph``, an adjacency matrix or Laplacian. The measures then stay with their
        nodes. Without a network the barycenter is computed by the exact solver, here or with ``engine="ray"`` on a
        cluster.
    """

    measures: Any = field(metadata=details(text=False))
    support: Any = option(None, reader=read.support)
    _: KW_ONLY
    reg: float = field(metadata=details(reader=read.regularisation))
    relative_reg: bool = option(False, reader=read.boolean)
    weights: ArrayLike | str | None = option(None, reader=read.weights)
    cost: CostLike = option(SQUARED, reader=read.cost)
    seed: int = option(0, reader=read.whole)
    samples: int = option(1000, reader=read.count)
    debias: bool = option(False, reader=read.boolean)
    precision: str = option("float64", reader=read.one_of(*read.PRECISIONS))
    output: str = option("numpy", reader=read.one_of("numpy", "like"), text=False)
    network: Any = option(None, *ENGINES, reader=read_network.network)

    @property
    def place(self) -> str:
        """Where it is to be computed: "exact", "cluster", or the engine of the network."""
        if self.network is not None:
            return self.engine
        return CLUSTER if self.engine == "ray" else EXACT

    def problem_arguments(self) -> dict[str, Any]:
        """What ``Problem.create`` takes."""
        others = {*RunOptions.fields(), "network", "output"}
        return {name: getattr(self, name) for name in Options.fields() if name not in others}

    def check(self, given: set[str]) -> None:
        """An error if an option was given that has no meaning where the barycenter is computed."""
        if self.network is None and self.method not in EXACT_METHODS:
            raise _wrong(
                "method", f"The method {self.method!r} runs on a network; give one, such as network='erdos_renyi'."
            )
        if self.debias and self.method not in DEBIASED_METHODS:
            raise _wrong(
                "debias",
                f"The method {self.method!r} finds the entropic barycenter only; leave out debias, or use one of "
                f"{', '.join(DEBIASED_METHODS)}.",
            )
        check_places(given, self.place)


def check_places(given: Collection[str], place: str) -> None:
    """An error if one of the options given has no meaning in this place."""
    for name, one in Options.fields().items():
        places = one.metadata["places"]
        if name in given and places and place not in places:
            raise _wrong(name, _misplaced(one, place))


def _misplaced(one: Field[Any], place: str) -> str:
    if place in (EXACT, CLUSTER):
        cluster = ", or engine='ray' for a cluster" if CLUSTER in one.metadata["places"] else ""
        return f"{one.name} is for runs on a network; give network{cluster}, or leave it out."
    if one.name == "max_iter":
        return "max_iter is for the solver without a network; a run on a network is limited by duration."
    engines = " or ".join(f'"{other}"' for other in one.metadata["places"] if other in ENGINES)
    return f'{one.name} is for engine {engines}, not for "{place}". Leave it out.'


def _wrong(name: str, message: str) -> OptionError:
    error = OptionError(message)
    error.option = name
    return error
