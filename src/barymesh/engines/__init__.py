"""Places to run a method on a network: in virtual time on one machine, in processes, on a Ray cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barymesh.errors import OptionError
from barymesh.extras import needs

if TYPE_CHECKING:
    from barymesh.network.topology import Network
    from barymesh.options import RunOptions
    from barymesh.problem import Problem
    from barymesh.result import Result


def run_on_network(problem: Problem, network: Network, options: RunOptions) -> Result:
    """Run with the engine that the options name, record on the way, and certify the result."""
    if problem.free is not None and (options.snapshots or options.reference is not False):
        raise OptionError("snapshots and reference are for a support that stays: leave them out with a FreeSupport.")
    match options.engine:
        case "processes":
            from barymesh.engines.processes import run_processes

            return run_processes(problem, network, options)
        case "ray":
            with needs("ray"):
                from barymesh.engines.ray import run_ray

            return run_ray(problem, network, options)
        case _:
            from barymesh.engines.simulate import simulate

            return simulate(problem, network, options)
