"""The function most programs need: it checks the options and calls the solver or an engine."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from barymesh.errors import MeasureError
from barymesh.extras import needs
from barymesh.measures.lazy import LazyMeasures
from barymesh.options import CLUSTER, Options
from barymesh.options.model import takes_options
from barymesh.problem import Problem
from barymesh.progress import is_interactive, show_message
from barymesh.result import Result


@takes_options(Options)
def barycenter(options: Options) -> Result:
    """The entropic Wasserstein barycenter of the measures: the ``weights`` on ``support`` that minimise ``sum_i w_i
    W_reg(weights, mu_i)``.

    {options}

    Returns
    -------
    Result
        Always; ``result.success`` is True if the tolerance was reached; ``result.gap`` certifies the objective.
        Ctrl-C returns the best result so far, with status INTERRUPTED. With ``output="like"`` a
        ``barymesh.like.ResultLike``, which has the same attributes and methods.

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
    if options.output == "like":
        from barymesh.like import ResultLike, find_example

        example = find_example(options.measures)
        found = _computed(options)
        return found if example is None else cast(Result, ResultLike(found, example))
    return _computed(options)


def _computed(options: Options) -> Result:
    """The Result, in NumPy arrays."""
    problem = Problem.create(**options.problem_arguments())
    if options.place != CLUSTER and (many := [one for one in problem.measures if isinstance(one, LazyMeasures)]):
        raise MeasureError(many[0].reason)
    shown = is_interactive() if options.progress is None else options.progress
    explicit = isinstance(options.support, str) and options.support == "auto"
    if problem.support.reason and (shown or explicit):
        show_message(f"Support: {problem.support.reason}.")
    if options.place == CLUSTER:
        with needs("ray"):
            from barymesh.engines.ray_shards import run_shards

        return run_shards(problem, options)
    if options.network is None:
        if shown and problem.work.is_large:
            show_message(f"{problem.work}.")
        if problem.free is not None:
            from barymesh.exact.free_support import solve_free_support

            return solve_free_support(
                problem, max_iter=options.max_iter, tol=options.tol, start=options.start, callback=options.callback,
                progress=shown,
            )  # fmt: skip
        from barymesh.exact.run import solve_problem

        return solve_problem(
            problem, max_iter=options.max_iter, tol=options.tol, start=options.start, callback=options.callback,
            progress=shown, method=options.method,
        )  # fmt: skip
    from barymesh.engines import run_on_network
    from barymesh.network import as_network

    network = as_network(options.network, len(problem.measures), problem.seed)
    return run_on_network(problem, network, replace(options, progress=shown))
