"""The oracle kernels against their floors in one run: a C/OpenMP kernel, and the machine's rate of matrix products.

python -m benchmarks.kernels
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numba
import numpy as np

from barymesh.cost import Cost
from barymesh.grid import Grid
from barymesh.measures import Atoms
from barymesh.oracle import atom_kernels
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.grid import GridOracle
from barymesh.oracle.plain import node_oracle
from barymesh.support import Support
from benchmarks.images import digits
from benchmarks.timing import best_times

GENERAL = [(500, 100, 10, 1), (500, 100, 100, 1), (500, 784, 10, 2), (500, 784, 156, 2)]
SEPARABLE = [(500, 28), (200, 64), (50, 128)]
SMALL_REGS = (5e-4, 2.5e-4, 1e-4)
SINGLE = (100, 10)


def compile_c(folder: Path) -> ctypes.CDLL:
    """The C kernel as a library, compiled for this machine."""
    source, library = Path(__file__).with_name("oracle.c"), folder / "oracle.so"
    flags = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def general_case(c: ctypes.CDLL, nodes: int, n: int, m: int, d: int) -> dict[str, Any]:
    """One sweep over all nodes: numba, C, and NumPy on a tenth of the nodes."""
    rng = np.random.default_rng(0)
    reg = 0.1
    support = Support(rng.uniform(-3, 3, (n, d)))
    atoms = [Atoms(rng.normal(size=(m, d)), np.arange(m), np.full(m, 1 / m)) for _ in range(nodes)]
    oracle = AtomOracle(atoms, support, Cost(), reg)
    lam = 0.3 * rng.normal(size=(nodes, n))
    x = lam / reg
    value, p, ours = np.empty(nodes), np.empty((nodes, n)), np.empty((nodes, n))
    sizes = [ctypes.c_int64(k) for k in (nodes, n, m, d)]
    arrays = [pointer(a) for a in (x, oracle.support_t, oracle.table, oracle.weights, value, p)]
    few = max(1, nodes // 10)
    costs = [Cost().matrix(support.points, a.points).T for a in atoms[:few]]
    times = best_times(
        {
            "numba": lambda: oracle.value_and_gradient(lam, out=ours),
            "c": lambda: c.oracle(*sizes, *arrays),
            "numpy": lambda: [node_oracle(lam[i], costs[i], atoms[i].weights, reg) for i in range(few)],
        }
    )
    gradient = oracle.value_and_gradient(lam)[1]
    assert np.abs(gradient - p).max() < 1e-12, "the C kernel disagrees"
    times["numpy"] *= nodes / few
    return {
        "case": f"{nodes} nodes, n={n}, M={m}, {d}-D",
        "ms": 1e3 * times["numba"],
        "over C": times["numba"] / times["c"],
        "NumPy over ours": times["numpy"] / times["numba"],
        "target over C": 1.3,
    }


def some_potentials(oracle: GridOracle) -> Any:
    """Potentials as they look after a few plain iterations."""
    x = np.zeros((oracle.count, oracle.size))
    for _ in range(20):
        _, log_p = oracle.evaluate(x)
        x += log_p.mean(axis=0) - log_p
    return x


def separable_case(nodes: int, side: int) -> dict[str, Any]:
    """Gradients of images against the time of the same number of flops in one large matrix product."""
    grid = Grid.of_image((side, side))
    atoms = [Atoms.from_weights(grid.points, image.ravel(), grid) for image in digits(nodes, side)]
    usual = GridOracle(atoms, grid, grid, np.square, 0.004)
    x = some_potentials(usual)
    out = np.empty_like(x)
    big = np.random.default_rng(0).random((1500, 1500))
    contestants = {"ours": lambda: usual.evaluate(x, out=out)}
    # at these reg the products underflow, and nodes go the safe way
    for reg in SMALL_REGS:
        small = GridOracle(atoms, grid, grid, np.square, reg)
        steep = some_potentials(small)
        contestants[f"reg {reg}"] = lambda o=small, x=steep: o.evaluate(x, out=out)  # type: ignore[misc]
    times = best_times(contestants)
    # apart from the others, because BLAS threads go on spinning for a while and would slow them
    times |= best_times({"gemm": lambda: big @ big})
    rate = 2 * 1500**3 / times["gemm"]
    flops = 2 * (2 * 2 * nodes * side**3)
    height, width = (usual.boxes[:, axis, 1] - usual.boxes[:, axis, 0] for axis in (0, 1))
    left = float((4 * side * width * (side + height)).sum())
    return {
        "case": f"{nodes} images of {side} x {side}",
        "ms": 1e3 * times["ours"],
        "over its flops": times["ours"] / (flops / rate),
        "target": 2.0,
        "share of the flops left after margins": left / flops,
        **{f"reg {reg} over reg 0.004": times[f"reg {reg}"] / times["ours"] for reg in SMALL_REGS},
    }


@numba.njit
def many_calls(
    calls: int, x: Any, support_t: Any, table: Any, cost: Any, index: Any, weights: Any, p: Any, log_p: Any
) -> float:
    total = 0.0
    for _ in range(calls):
        total += atom_kernels.node(x, 1.0, support_t, table, cost, index, weights, 0, weights.size, p, log_p)
    return total


def single_node() -> dict[str, Any]:
    """One node a call, from compiled code and from Python."""
    n, m = SINGLE
    rng = np.random.default_rng(0)
    atoms = [Atoms(rng.normal(size=(m, 1)), np.arange(m), np.full(m, 1 / m))]
    oracle = AtomOracle(atoms, Support(np.linspace(-3, 3, n)), Cost(), 0.1)
    lam = 0.3 * rng.normal(size=(1, n))
    calls = 1000
    p, nothing = np.empty(n), np.empty(0)
    x = lam[0] / oracle.reg
    times = best_times(
        {
            "compiled": lambda: many_calls(
                calls, x, oracle.support_t, oracle.table, oracle.cost_rows, oracle.index, oracle.weights, p, nothing
            ),
            "python": lambda: oracle.value_and_gradient(lam),
        }
    )
    return {
        "case": f"one node, n={n}, M={m}",
        "microseconds from compiled code": 1e6 * times["compiled"] / calls,
        "target compiled": 5.0,
        "microseconds from Python": 1e6 * times["python"],
        "target Python": 20.0,
    }


def run() -> list[dict[str, Any]]:
    """All kernel benchmarks."""
    with tempfile.TemporaryDirectory() as folder:
        c = compile_c(Path(folder))
        general = [general_case(c, *case) for case in GENERAL]
    # the separable cases last: their BLAS calls leave threads spinning
    return [*general, single_node(), *(separable_case(*case) for case in SEPARABLE)]


if __name__ == "__main__":
    for row in run():
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
