"""The oracle kernels against their floors in one run: the machine's rate of exponentials, the same kernel in C and
OpenMP, and the rate of matrix products."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from barymesh.core import kernels as compiled
from barymesh.cost import Cost
from barymesh.errors import NumericalError
from barymesh.measures import Atoms
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.grid import GridOracle
from barymesh.support.grid import Grid
from barymesh.support.points import Support
from benchmarks import gradients
from benchmarks.images import Floats, digits
from benchmarks.parts import Part, Row, Table
from benchmarks.tables import in_line
from benchmarks.timing import best_times
from tests.oracle.plain import node_oracle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GENERAL = [(500, 100, 10, 1), (500, 100, 100, 1), (500, 784, 10, 2), (500, 784, 156, 2)]
QUICK_GENERAL = [(500, 100, 10, 1), (100, 784, 10, 2)]
SEPARABLE = [(500, 28), (200, 64), (50, 128)]
QUICK_SEPARABLE = [(100, 28)]
SMALL_REGS = (5e-4, 2.5e-4, 1e-4)
SINGLE = (100, 10)
TURNS, QUICK_TURNS = 15, 5
# numbers of which in and out lie in a cache of one core (128 kB), so many that a call from Python costs next to nothing
# beside them, and how often they are gone over
CACHED, SWEEPS = 8192, 25
BLUE, ORANGE = "#0072B2", "#D55E00"

TEXT = (
    "Every kernel against a floor measured beside it in the same run, in float64, outputs allocated "
    "beforehand. Calls take turns, and the best of {turns} turns counts.{missing}"
)
EXP_TEXT = (
    "Nanoseconds of one exponential on one thread, in a loop over 8,192 numbers, which stay in the caches of a core. "
    "C runs on all threads at once, the others on one. The faster of ours and C, on all threads, is the floor of what "
    "follows."
)
GENERAL_TEXT = (
    "One sweep over all nodes, M atoms each. *Over its exponentials*: against the time of its exponentials alone, "
    "one for each pair of atom and support point, at the rate above. *Over C*: against the same computation in C and "
    "OpenMP (`benchmarks/oracle.c`, compiled for this machine) with the same polynomial exp. *NumPy over ours*: the "
    "formula as it stands, timed on a tenth of the nodes."
)
SINGLE_TEXT = "One node a call, from Python."
SEPARABLE_TEXT = (
    "Gradients of images. *Over its flops*: against the time of the separable form's own floating-point operations "
    "at the rate of a 1500 x 1500 matrix product; all of them, though we skip those that only meet the empty margins "
    "of an image (what is left is given beside it). *reg ... over reg 0.004*: the same call where products underflow "
    "and nodes go through block floating point."
)


def compile_c(folder: Path) -> ctypes.CDLL | None:
    """The C kernel as a library, compiled for this machine; None without a compiler that can."""
    source, library = Path(__file__).with_name("oracle.c"), folder / "oracle.so"
    flags = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    ran = subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lm"], capture_output=True)
    return None if ran.returncode else ctypes.CDLL(str(library))


def numbers(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(value) for value in values]


def pointers(*arrays: Floats) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def exponentials(c: ctypes.CDLL | None, turns: int) -> tuple[float, list[Row]]:
    """Seconds of one exponential on all threads together, the best loop's, and a row for each loop."""
    threads = compiled.threads()
    x = np.random.default_rng(0).uniform(-50, 0, (threads, CACHED))
    out = np.empty_like(x)

    def repeated(exp: Callable[[Floats, Floats], object]) -> Callable[[], None]:
        def loop() -> None:
            for _ in range(SWEEPS):
                exp(x[0], out[0])

        return loop

    loops: dict[str, Callable[[], object]] = {"ours": repeated(compiled.vector_exp), "NumPy": repeated(np.exp)}
    if c is not None:
        given = [*numbers(threads, SWEEPS, CACHED), *pointers(x, out)]
        loops["C"] = lambda: c.exps(*given)
    each = {name: seconds / (SWEEPS * CACHED) for name, seconds in best_times(loops, turns).items()}
    floor = min(seconds for name, seconds in each.items() if name != "NumPy")
    rows: list[Row] = [
        {"loop": name, "threads": threads if name == "C" else 1, "ns": 1e9 * t, "over the floor": t / floor}
        for name, t in each.items()
    ]
    return floor / threads, rows


def general_case(c: ctypes.CDLL | None, floor: float, turns: int, nodes: int, n: int, m: int, d: int) -> Row:
    """One sweep over all nodes: ours, C, and NumPy on a tenth of the nodes."""
    rng = np.random.default_rng(0)
    reg = 0.1
    support = Support(rng.uniform(-3, 3, (n, d)))
    atoms = [Atoms(rng.normal(size=(m, d)), np.arange(m), np.full(m, 1 / m)) for _ in range(nodes)]
    oracle = AtomOracle(atoms, support, Cost(), reg)
    lam = 0.3 * rng.normal(size=(nodes, n))
    found = np.empty((nodes, n))
    few = max(1, nodes // 10)
    costs = [Cost().matrix(support.points, a.points).T for a in atoms[:few]]
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: oracle.value_and_gradient(lam, out=found),
        "numpy": lambda: [node_oracle(lam[i], costs[i], atoms[i].weights, reg) for i in range(few)],
    }
    if c is not None:
        calls["c"] = c_oracle(c, oracle, lam)[0]
    times = best_times(calls, turns)
    row: Row = {"case": f"{nodes} nodes, n={n}, M={m}, {d}-D", "ms": 1e3 * times["ours"]}
    row["over its exponentials"] = times["ours"] / (floor * nodes * n * m)
    if c is not None:
        row |= {"over C": times["ours"] / times["c"], "target over C": 1.3}
    return row | {"NumPy over ours": times["numpy"] * nodes / few / times["ours"]}


def c_oracle(c: ctypes.CDLL, oracle: AtomOracle, lam: Floats) -> tuple[Callable[[], object], Floats]:
    """The call of the C kernel, checked to agree with ours, and the gradients ``(b, n)`` it fills."""
    (nodes, n), d = lam.shape, oracle.support_t.shape[0]
    x, value, p = lam / oracle.reg, np.empty(nodes), np.empty((nodes, n))
    sizes = numbers(compiled.threads(), nodes, n, oracle.weights.size // nodes, d)
    arrays = x, oracle.support_t, oracle.table, oracle.weights, value, p

    def call() -> None:
        c.oracle(*sizes, *pointers(*arrays))

    call()
    gap = float(np.abs(oracle.value_and_gradient(lam)[1] - p).max())
    if not gap < 1e-12:
        raise NumericalError(f"The C kernel's gradients differ from ours by {gap:.1e}: not the same computation.")
    return call, p


def some_potentials(oracle: GridOracle) -> Floats:
    """Potentials as they look after a few plain iterations."""
    x = np.zeros((oracle.count, oracle.size))
    for _ in range(20):
        _, log_p = oracle.evaluate(x)
        x += log_p.mean(axis=0) - log_p
    return x


def separable_case(turns: int, nodes: int, side: int) -> Row:
    """Gradients of images against the time of the same number of flops in one large matrix product."""
    grid = Grid.of_image((side, side))
    atoms = [Atoms.from_weights(grid.points, image.ravel(), grid) for image in digits(nodes, side)]
    usual = GridOracle(atoms, grid, grid, np.square, 0.004)
    x = some_potentials(usual)
    out = np.empty_like(x)
    big = np.random.default_rng(0).random((1500, 1500))
    contestants: dict[str, Callable[[], object]] = {"ours": lambda: usual.evaluate(x, out=out)}
    # at these reg the products underflow, and nodes go the safe way
    for reg in SMALL_REGS:
        small = GridOracle(atoms, grid, grid, np.square, reg)
        contestants[f"reg {reg}"] = partial(small.evaluate, some_potentials(small), out=out)
    times = best_times(contestants, turns)
    # apart from the others, because BLAS threads go on spinning for a while and would slow them
    times |= best_times({"gemm": lambda: big @ big}, turns)
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


def single_node(turns: int) -> Row:
    """One node a call."""
    n, m = SINGLE
    rng = np.random.default_rng(0)
    atoms = [Atoms(rng.normal(size=(m, 1)), np.arange(m), np.full(m, 1 / m))]
    oracle = AtomOracle(atoms, Support(np.linspace(-3, 3, n)), Cost(), 0.1)
    lam = 0.3 * rng.normal(size=(1, n))
    seconds = best_times({"ours": lambda: oracle.value_and_gradient(lam)}, turns)["ours"]
    return {"case": f"one node, n={n}, M={m}", "microseconds": 1e6 * seconds, "target": 20.0}


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """All kernel benchmarks."""

    def reported(row: Row) -> Row:
        say(in_line(row))
        return row

    turns = QUICK_TURNS if quick else TURNS
    with tempfile.TemporaryDirectory() as folder:
        c = compile_c(Path(folder))
        floor, loops = exponentials(c, turns)
        for row in loops:
            say(in_line(row))
        cases = QUICK_GENERAL if quick else GENERAL
        general = [reported(general_case(c, floor, turns, *case)) for case in cases]
    single = [reported(single_node(turns))]
    # these last: their BLAS calls leave threads spinning
    separable = [reported(separable_case(turns, *case)) for case in (QUICK_SEPARABLE if quick else SEPARABLE)]
    others = gradients.QUICK_CASES if quick else gradients.CASES
    same = [reported(gradients.gradient_case(*case, turns)) for case in others]
    missing = "" if c else " There was no C compiler that could compile `benchmarks/oracle.c`, so C is left out."
    return Part(
        "Oracle kernels",
        TEXT.format(turns=turns, missing=missing),
        [
            Table("Exponentials", EXP_TEXT, loops),
            Table("General oracle", GENERAL_TEXT, general),
            Table("One node", SINGLE_TEXT, single),
            Table("Separable oracle", SEPARABLE_TEXT, separable),
            Table("The same gradients in POT and OTT-JAX", gradients.text(same), same),
        ],
        {"kernels-over-floors": partial(draw_floors, general=general, separable=separable)},
    )


def draw_floors(axes: Axes, general: list[Row], separable: list[Row]) -> None:
    """How many times the time of its floor every kernel takes."""
    bars = [(f"{row['case']}\nover its exponentials", row["over its exponentials"], BLUE) for row in general]
    bars += [(f"{row['case']}\nover its flops", row["over its flops"], ORANGE) for row in separable]
    names, ratios, colours = zip(*bars, strict=True)
    axes.barh(names, ratios, color=colours)
    for place, ratio in enumerate(ratios):
        axes.text(ratio, place, f" {ratio:.2f}", va="center", fontsize=9)
    axes.axvline(1, color="black", linewidth=1)
    axes.text(1, 1.01, "floor", transform=axes.get_xaxis_transform(), ha="center", fontsize=9)
    axes.set_xlim(0, 1.15 * max(ratios))
    axes.invert_yaxis()
    axes.set_xlabel("time over the floor")
