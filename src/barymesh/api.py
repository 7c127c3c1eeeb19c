"""The one call most people need."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from barymesh.checks import real_number, whole_number
from barymesh.cost import SQUARED, CostLike
from barymesh.decentralized import NETWORK_METHODS
from barymesh.errors import NumericalError, OptionError
from barymesh.history import History
from barymesh.metrics import consensus_error, feasibility_residual
from barymesh.problem import PRECISIONS, Problem
from barymesh.progress import following, is_watched, say
from barymesh.result import Result

if TYPE_CHECKING:
    from barymesh.exact.solver import State
    from barymesh.oracle.base import Floats, Oracle
    from barymesh.support.points import Support

METHODS = ("sinkhorn",)


def barycenter(
    measures: Any,
    support: Any = None,
    *,
    reg: float,
    relative_reg: bool = False,
    weights: ArrayLike | None = None,
    cost: CostLike = SQUARED,
    network: Any = None,
    method: str = "sinkhorn",
    engine: str = "simulation",
    max_iter: int = 5000,
    tol: float = 1e-6,
    seed: int = 0,
    samples: int = 1000,
    precision: str = "float64",
    start: Result | None = None,
    callback: Callable[[Any], bool | None] | None = None,
    progress: bool | None = None,
    **running: Any,
) -> Result:
    """The entropic Wasserstein barycenter of the measures: the ``weights`` on ``support`` that minimise ``sum_i w_i
    W_reg(weights, mu_i)``.

    Parameters
    ----------
    measures : list or array
        A list of measures (Gaussian, Mixture, Empirical, Histogram, Image, frozen ``scipy.stats`` distributions,
        functions ``(size, rng) -> samples``, arrays of samples ``(N, d)``), in any mix; or one array: ``(m, n)`` for
        histograms on the support, one a row, or ``(m, *shape)`` for images. ``Stays(path)`` and ``Stays(function,
        *arguments)`` are loaded by the process or the machine that has their node, and by nobody else.
    support : array (n, d), Support, "auto" or None, default=None
        Where the barycenter lives: points ``(n, d)``, a ``Support``, ``None`` (the measures' common points if they have
        some, else chosen from the data) or ``"auto"`` (always chosen from the data). The reason for a choice is shown
        with progress, and kept in ``result.support.reason``.
    reg : float
        Entropic regularisation, in units of the cost. Smaller is sharper and slower.
    relative_reg : bool, default=False
        Whether ``reg`` is a multiple of the median cost; 0.01 is a good start then.
    weights : array (m,), optional
        Importance of each measure; normalised to sum 1. Uniform by default.
    cost : str, function or array (n, N), default="sqeuclidean"
        ``"sqeuclidean"`` (default), ``"euclidean"``, any metric of ``scipy.spatial.distance``, a function ``(support,
        atoms) -> matrix``, or, for histograms, a matrix ``(n, N)``.
    network : str, Network, graph, array, path or None, default=None
        Who talks to whom, if the measures are to stay with their nodes: a name with or without arguments (``"cycle"``,
        ``"erdos_renyi:p=0.05"``), a ``Network``, a ``networkx.Graph``, an adjacency matrix or Laplacian, a file of
        edges.
    engine : str, default="simulation"
        Where a network lives: ``"simulation"``, in virtual time, repeatable to the last bit; ``"processes"``, real
        processes on this machine that talk through sockets, as fast as they can; or ``"ray"``, the same on the machines
        of a Ray cluster, through encrypted links. Programs that use processes need the usual ``if __name__ ==
        "__main__":``.
    method : str, default="sinkhorn"
        ``"sinkhorn"``: Sinkhorn iteration in the dual, accelerated, with every step checked to do at least as well as a
        plain one must. On a network it is asynchronous and decentralised. The others are for networks only:
        ``"a2dwb"`` (the paper's), ``"a2dwb_naive"``, ``"dcwb"`` (synchronous), ``"a2dwb_conserving"`` (the paper's,
        made to end at the barycenter) and ``"gossip_sinkhorn"`` (another paper's).
    max_iter, tol : int and float, default=5000 and 1e-6
        Stop once the measures' own estimates agree with the barycenter to ``tol`` (mean L1 distance), or after
        ``max_iter`` iterations. On a network only ``"sinkhorn"`` stops by itself, once every node is within ``tol``;
        the others, ``tol=0``, and samples that grow run for the whole duration.
    seed, samples : int, default=0 and 1000
        Measures that can only be sampled are replaced by ``samples`` draws, which depend on (seed, node) alone; on a
        network by samples that grow, see ``batch``.
    precision : str, default="float64"
        ``"float64"`` or ``"float32"`` arithmetic inside the oracles; float32 is faster and good to about 1e-5.
    start : Result, optional
        A previous Result on the same measures and support, to continue from.
    callback : function, optional
        Called with a ``State`` after every iteration, or with the ``Simulation`` after every record; return True to
        stop. If it has a method ``begin``, that is told the support and reg first, without a network.
    progress : bool, optional
        Show progress; by default only if there is a terminal or a notebook to show it in.

    Other Parameters
    ----------------
    duration : float
        Seconds to run (60), virtual in a simulation. These and the following are for runs on a network; processes and
        Ray take this one, ``workers``, ``interval``, ``step``, ``batch``, ``record_every`` and ``reference``.
    workers : int
        Processes, each with some of the nodes; by default one for each core.
    interval : float
        Seconds between two activations of a node in a process; 0 (default) for as often as it can.
    address : str
        The Ray cluster, such as ``"10.0.0.1:6379"``; by default the one this process is connected to, else one started
        for this run on this machine.
    folder : path
        Where workers of Ray keep their state, each on its own machine; by default a folder for temporary files.
    delays : Delay or str
        How long messages take: ``"categorical"`` (the paper's, 0.2 to 1 s), ``"constant:seconds=0.1"``,
        ``"uniform:low=0.1,high=0.5"``, ``"lognormal:median=0.3,sigma=0.5"``, or an object of ``barymesh.network``.
    schedule : Schedule or str
        When nodes act: ``"windowed"`` (the paper's), ``"poisson:rate=5"``, ``"periodic:period=0.2,jitter=0.1"``; the
        last two take ``slow_share=0.1,slowdown=10`` for stragglers.
    faults : list
        ``"loss:probability=0.2"``, ``"duplication:probability=0.1"``, ``"reordering:probability=0.1,extra=1"``,
        ``"sleep:node=3,start=10,stop=20"``, ``"crash:node=3,start=10,stop=20,memory=false"``,
        ``"link_down:first=0,second=1,start=5,stop=9"``, or the objects of ``barymesh.network``.
    events : list
        What is meant to happen: ``"leave:node=3,at=20"``, ``"join:node=4,at=30"``, or objects of ``barymesh.network``,
        such as ``NewData(node=5, at=10, measure=...)``. For ``"sinkhorn"`` only.
    step : float or "theory"
        Step size of the methods that need one; by default ``reg / lambda_max`` of the network's Laplacian, which no
        theorem covers with stale messages; ``"theory"`` is the one the paper's theorem allows, and far smaller.
    batch : int, "exact" or GrowingBatch
        Samples drawn for each gradient, all of the measure, or the paper's growing rule ``"growing:epsilon=0.1"``. By
        default 10. For the two kinds of Sinkhorn a number means a sample that grows by so many at each activation; by
        default they take all of a measure, and 100 new samples of one that can only be sampled.
    frugal : bool
        Spare the network: ``"sinkhorn"`` then sends vectors along its tree only, in float32, and only where something
        changed.
    record_every : float
        Seconds between rows of ``result.history`` (1), virtual in a simulation.
    reference : bool or array
        The true barycenter to compare with in the columns ``tv`` and ``gap``: computed if True.
    snapshots : bool
        Keep some nodes' estimates at every record, for ``result.animate``.
    checkpoint : path, resume : bool
        Write the whole state of the run there at its end or on Ctrl-C; go on from it.

    Returns
    -------
    Result
        Always; ``result.success`` tells whether the tolerance was reached, ``result.gap`` certifies the objective.
        Ctrl-C returns the best result so far, with status INTERRUPTED.

    Examples
    --------
    >>> import numpy as np
    >>> import barymesh as bm
    >>> support = np.linspace(-5, 5, 101)
    >>> result = bm.barycenter([bm.Gaussian(-2, 0.5), bm.Gaussian(2, 0.5)], support, reg=0.05)
    >>> result.success, bool(result.gap < 1e-4)
    (True, True)
    >>> abs(round(float(result.weights @ support), 3))
    0.0

    The same on a network, where the measures stay with their nodes:

    >>> nodes = [bm.Gaussian(mean, 0.5) for mean in (-2, -1, 1, 2)]
    >>> result = bm.barycenter(nodes, support, reg=0.1, network="cycle", delays="constant:seconds=0.1")
    >>> result.status.name
    'CONVERGED'
    """
    _check_method(method, engine, network, running, start)
    max_iter = whole_number("max_iter", max_iter, 1)
    tolerance = real_number(tol)
    if tolerance is None or tolerance < 0:
        raise OptionError(f"tol is {tol!r}; it must be a finite number, 0 or larger.")
    if start is not None and not isinstance(start, Result):
        raise OptionError(f"start is {start!r}; it must be a Result of an earlier run.")
    problem = Problem.create(
        measures,
        support,
        reg=reg,
        relative_reg=relative_reg,
        weights=weights,
        cost=cost,
        seed=seed,
        samples=samples,
        precision=precision,
    )
    showing = is_watched() if progress is None else progress
    asked = isinstance(support, str) and support == "auto"
    if problem.support.reason and (showing or asked):
        say(f"Support: {problem.support.reason}.")
    if network is not None:
        from barymesh.network import as_network
        from barymesh.simulate import Options, simulate

        who = as_network(network, len(problem.measures), problem.seed)
        if engine == "processes":
            from barymesh.engines.processes import run_processes
            from barymesh.engines.supervisor import WorkerOptions

            told = WorkerOptions(method=method, tol=tolerance, **running)
            return run_processes(problem, who, told, callback=callback, progress=showing)
        if engine == "ray":
            from barymesh.engines.ray import RayOptions, run_ray

            placed = RayOptions(method=method, tol=tolerance, **running)
            return run_ray(problem, who, placed, callback=callback, progress=showing)
        return simulate(
            problem, who, Options(method=method, tol=tolerance, **running), callback=callback, progress=showing
        )
    return solve_problem(problem, max_iter=max_iter, tol=tolerance, start=start, callback=callback, progress=showing)


WORKERS = ("duration", "workers", "interval", "step", "batch", "record_every", "reference")
# the options of a run on a network by engine; see barymesh.simulate.Options, barymesh.engines.supervisor and .ray
RUNNING = {
    "simulation": (
        "duration", "delays", "schedule", "faults", "events", "step", "batch", "frugal", "record_every", "reference",
        "snapshots", "checkpoint", "resume",
    ),
    "processes": WORKERS,
    "ray": (*WORKERS, "address", "folder"),
}  # fmt: skip


def _check_method(method: str, engine: str, network: Any, running: dict[str, Any], start: Result | None) -> None:
    strangers = [name for name in running if not any(name in names for names in RUNNING.values())]
    if strangers:
        raise TypeError(f"barycenter() got an unexpected keyword argument {strangers[0]!r}")
    if engine not in RUNNING:
        raise OptionError(f"Unknown engine {engine!r}; choose one of {', '.join(RUNNING)}.")
    misplaced = [name for name in running if name not in RUNNING[engine]]
    if network is not None and misplaced:
        others = " or ".join(f'engine="{one}"' for one, names in RUNNING.items() if misplaced[0] in names)
        raise OptionError(f'{misplaced[0]}= is for {others}, not for engine="{engine}". Leave it out.')
    if network is None and engine != "simulation":
        raise OptionError(f"engine={engine!r} needs a network; give one, such as network='erdos_renyi'.")
    if method not in NETWORK_METHODS:
        raise OptionError(f"Unknown method {method!r}; choose one of {', '.join(NETWORK_METHODS)}.")
    if network is None:
        if method not in METHODS:
            raise OptionError(f"The method {method!r} runs on a network; give one, such as network='erdos_renyi'.")
        if running:
            raise OptionError(f"{next(iter(running))}= is for runs on a network; give network=, or leave it out.")
    elif start is not None:
        raise OptionError(
            "start= is for the solver without a network; to go on with a simulation use checkpoint= and resume=."
        )


def solve_problem(
    problem: Problem,
    *,
    max_iter: int,
    tol: float,
    start: Result | None = None,
    callback: Callable[[State], bool | None] | None = None,
    progress: bool = False,
) -> Result:
    """Run the exact solver on a Problem and certify its answer."""
    from barymesh.oracle import build_oracle

    began = time.perf_counter()
    first = None
    if start is not None:
        expected = (len(problem.measures), problem.support.size)
        if start.duals.shape != expected:
            raise OptionError(
                f"The result to go on from (start=, or --resume) has {start.duals.shape} (measures, support points); "
                f"this problem has {expected}. "
                "Leave it out, or give the measures and the support it was computed with."
            )
        first = start.duals / problem.reg
    oracle = build_oracle(problem.atoms, problem.support, problem.cost, problem.reg, PRECISIONS[problem.precision])
    found = solve_oracle(
        oracle, problem.weights, problem.support, problem.largest_cost(),
        max_iter=max_iter, tol=tol, start=first, callback=callback, progress=progress,
    )  # fmt: skip
    return replace(found, seconds=time.perf_counter() - began)


def solve_oracle(
    oracle: Oracle,
    weights: Floats,
    support: Support,
    largest_cost: float,
    *,
    max_iter: int,
    tol: float,
    start: Floats | None = None,
    callback: Callable[[State], bool | None] | None = None,
    progress: bool = False,
) -> Result:
    """The same for nodes known by their oracle only; ``start (m, n)``: potentials in units of reg to begin with."""
    from barymesh.exact import certify, solve

    began = time.perf_counter()
    begin = getattr(callback, "begin", None)
    if begin is not None:
        begin(support, oracle.reg)
    with following(tol, max_iter, progress, callback) as watch:
        solution = solve(oracle, weights, max_iter=max_iter, tol=tol, start=start, callback=watch)
    bounds = certify(oracle, weights, solution.x, solution.log_p, solution.p, largest_cost)
    node_weights = np.exp(solution.log_p)
    duals = oracle.reg * solution.x
    if not (np.isfinite(solution.p).all() and np.isfinite(duals).all()):
        raise NumericalError(
            "The barycenter came out with numbers that are not finite. Please report this with the data."
        )
    return Result(
        weights=solution.p,
        support=support,
        node_weights=node_weights,
        duals=duals,
        value=bounds.upper,
        gap=bounds.gap,
        consensus=consensus_error(node_weights, solution.p, weights),
        feasibility=feasibility_residual(duals, weights),
        reg=oracle.reg,
        method="sinkhorn",
        status=solution.status,
        iterations=solution.iterations,
        seconds=time.perf_counter() - began,
        history=History(
            {
                "iteration": np.arange(1, solution.iterations + 1, dtype=float),
                "consensus": solution.errors,
                "dual_objective": oracle.reg * solution.duals,
            }
        ),
    )
