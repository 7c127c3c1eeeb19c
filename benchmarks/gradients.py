"""The same semi-dual gradients from barymesh, POT and OTT-JAX: the average over samples y of softmax((lam - c(., y)) /
reg)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.cost import Cost
from barymesh.errors import NumericalError
from barymesh.measures import Atoms
from barymesh.oracle.atoms import AtomOracle
from barymesh.support.points import Support
from benchmarks.parts import Row
from benchmarks.timing import best_times

Floats = NDArray[np.float64]
# from potentials (b, n), samples (b, M, d), support (n, d) and reg to a call that gives the gradients (b, n)
Maker = Callable[[Floats, Floats, Floats, float], Callable[[], Floats]]

CASES = [(1, 100, 10, 1), (500, 100, 10, 1), (1, 784, 100, 2), (100, 784, 100, 2)]
QUICK_CASES = [(1, 100, 10, 1), (100, 100, 10, 1)]
REG = 0.1
AGREEMENT = 1e-10
OURS = "barymesh"
TEXT = (
    "One gradient of a node from M samples, on n points, in float64: milliseconds for all nodes, the others also as "
    "multiples of ours (the floor here). They are checked to agree to {agreement:g} before they are timed. *POT "
    "semidiscrete*: the mean of `ot.semidiscrete.semidiscrete_atom_weights`; *POT stochastic*: of "
    "`ot.stochastic.coordinate_grad_semi_dual`, sample by sample as its solvers call it, cost matrix made beforehand. "
    "*OTT semidiscrete*: the gradient in a step of its "
    "`SemidiscreteSolver`, compiled, all nodes in one call (`vmap`).{missing}"
)


def ours(lam: Floats, samples: Floats, support: Floats, reg: float) -> Callable[[], Floats]:
    count = samples.shape[1]
    atoms = [Atoms(own, np.arange(count), np.full(count, 1 / count)) for own in samples]
    oracle, out = AtomOracle(atoms, Support(support), Cost(), reg), np.empty_like(lam)
    return lambda: oracle.value_and_gradient(lam, out=out)[1]


def pot_semidiscrete(lam: Floats, samples: Floats, support: Floats, reg: float) -> Callable[[], Floats]:
    from ot.semidiscrete import semidiscrete_atom_weights

    return lambda: np.array(
        [
            semidiscrete_atom_weights(support, own, potential, reg=reg).mean(axis=0)
            for potential, own in zip(lam, samples, strict=True)
        ]
    )


def pot_stochastic(lam: Floats, samples: Floats, support: Floats, reg: float) -> Callable[[], Floats]:
    import ot
    from ot.stochastic import coordinate_grad_semi_dual

    costs = [ot.dist(own, support) for own in samples]
    b = np.full(len(support), 1 / len(support))

    def gradients() -> Floats:
        out = np.tile(b, (len(lam), 1))
        for i, cost in enumerate(costs):
            for k in range(len(cost)):
                out[i] -= coordinate_grad_semi_dual(b, cost, reg, lam[i], k) / len(cost)
        return out

    return gradients


def ott_semidiscrete(lam: Floats, samples: Floats, support: Floats, reg: float) -> Callable[[], Floats]:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    import optax
    from ott.geometry.semidiscrete_pointcloud import SemidiscretePointCloud
    from ott.problems.linear.semidiscrete_linear_problem import SemidiscreteLinearProblem
    from ott.solvers.linear.semidiscrete import SemidiscreteSolver, SemidiscreteState

    # a step of size 1 down the gradient shows the gradient
    solver = SemidiscreteSolver(num_iterations=1, batch_size=samples.shape[1], optimizer=optax.sgd(1.0))
    b, nothing = 1 / len(support), jnp.zeros(1)

    def gradient(potential: Any, own: Any) -> Any:
        cloud = SemidiscretePointCloud(lambda *_: own, jnp.asarray(support), epsilon=reg)
        start = solver.optimizer.init(potential)
        state = SemidiscreteState(jnp.array(0), reg, potential, potential, start, nothing, nothing, nothing)
        moved = solver.step(jax.random.key(0), state, SemidiscreteLinearProblem(cloud))
        return potential - moved.g + b

    compiled = jax.jit(jax.vmap(gradient))
    x, y = jnp.asarray(lam), jnp.asarray(samples)
    return lambda: np.asarray(compiled(x, y).block_until_ready())


MAKERS: dict[str, Maker] = {
    OURS: ours,
    "POT semidiscrete": pot_semidiscrete,
    "POT stochastic": pot_stochastic,
    "OTT semidiscrete": ott_semidiscrete,
}


def problem(nodes: int, n: int, count: int, d: int) -> tuple[Floats, Floats, Floats, float]:
    """Potentials, samples, support and reg of a case."""
    rng = np.random.default_rng(0)
    lam, samples = 0.3 * rng.normal(size=(nodes, n)), rng.normal(size=(nodes, count, d))
    return lam, samples, rng.uniform(-3, 3, (n, d)), REG


def check_agreement(gradients: dict[str, Floats]) -> None:
    """Refuse to time what does not compute the same."""
    for name, found in gradients.items():
        gap = float(np.abs(found - gradients[OURS]).max())
        if not gap <= AGREEMENT:
            raise NumericalError(f"The gradients of {name} differ from ours by {gap:.1e}: not the same computation.")


def gradient_case(nodes: int, n: int, count: int, d: int, turns: int) -> Row:
    """Milliseconds for the gradients of all nodes, the others over ours."""
    given = problem(nodes, n, count, d)
    calls: dict[str, Callable[[], Floats]] = {}
    for name, make in MAKERS.items():
        # libraries that are not installed, or too old to have it, are left out
        with suppress(ImportError):
            calls[name] = make(*given)
    check_agreement({name: call() for name, call in calls.items()})
    times = best_times(calls, turns)
    row: Row = {"case": f"{nodes} node{'s' * (nodes > 1)}, n={n}, M={count}, {d}-D"}
    for name, seconds in times.items():
        row[f"{name} (ms)"] = 1e3 * seconds
    return row | {f"{name} over ours": times[name] / times[OURS] for name in times if name != OURS}


def text(rows: list[Row]) -> str:
    """The text above the rows, with the libraries that are missing."""
    missing = [name for name in MAKERS if not any(f"{name} (ms)" in row for row in rows)]
    words = f" Not installed, so left out: {', '.join(missing)}." if missing else ""
    return TEXT.format(agreement=AGREEMENT, missing=words)
