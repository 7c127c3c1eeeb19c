"""What do 18 institutions have in common, if none shows its patients? The lung data of the package lifelines.

228 patients with advanced lung cancer, of the North Central Cancer Treatment Group (Loprinzi et al., 1994), with the
number of the institution that treated each. Every institution runs a node of its own, as a process on this machine, and
finds the barycenter of all ages with the others. The nodes mask what they report. Then the attack of
docs/explanation/privacy.md: what a neighbour could read without masks, and what is left to it with them.

    python examples/lung.py --output lung        (needs pip install 'barymesh[peers,plots]' lifelines)
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from lifelines.datasets import load_lung
from numpy.typing import NDArray
from scipy.optimize import nnls

import barymesh as bm

Floats = NDArray[np.float64]

# a point for each year, and a blur of two years
SUPPORT, REG, GRAPH = "56:35:90", 8.0, "random_regular"
POINTS = np.linspace(35, 90, 56)
# where the attack looks for records, and how close to one it must come
CANDIDATES, NEAR = np.arange(35, 90.01, 0.25), 0.5


def institutions(column: str = "age") -> dict[str, Floats]:
    """The values of each institution, by its number; patients without one, or without a value, are left out."""
    known = load_lung().dropna(subset=["inst", column])
    return {f"inst{int(number)}": group[column].to_numpy(float) for number, group in known.groupby("inst")}


def run_peers(folder: Path, samples: dict[str, Floats]) -> bm.Result:
    """A node for each institution, as a process; the barycenter as the first of them knows it."""
    ports = iter(free_ports(len(samples)))
    command = ["network", "create", str(folder), "--support", SUPPORT, "--reg", str(REG), "--weights", "size"]
    command += ["--graph", GRAPH, "--interval", "0.1"]
    for name, values in samples.items():
        command += ["--node", f"{name}=tcp://127.0.0.1:{next(ports)},records={len(values)}"]
    subprocess.run([sys.executable, "-m", "barymesh", *command], check=True, stdout=subprocess.DEVNULL)
    nodes = []
    for name, values in samples.items():
        np.savetxt(folder / f"{name}.csv", values, header="age", comments="")
        command = ["node", str(folder / "kits" / name), "--data", str(folder / f"{name}.csv"), "--yes", "--quiet"]
        command = [sys.executable, "-m", "barymesh", *command, "--no-picture"]
        nodes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    try:
        while any(node.poll() is None for node in nodes):
            for name, node in zip(samples, nodes, strict=True):
                if node.poll():
                    raise SystemExit(f"{name} ended with the exit code {node.returncode}.")
            time.sleep(0.1)
    finally:
        for node in nodes:
            node.terminate()
    return bm.load(folder / "kits" / next(iter(samples)) / "run" / "result.npz")


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens at, below those that outgoing connections get."""
    ports: list[int] = []
    for port in range(21_000, 32_000):
        with socket.socket() as one:
            if len(ports) < count and one.connect_ex(("127.0.0.1", port)):
                ports.append(port)
    return ports


def read_records(potential: Floats, estimate: Floats, count: int) -> Floats:
    """Where the attack sees ``count`` records, from a node's potential and estimate in units of reg, each ``(n,)``: the
    masses on the candidates that explain the estimate best."""
    exponents = potential[:, None] - np.square(POINTS[:, None] - CANDIDATES) / REG
    kernel = np.exp(exponents - exponents.max(axis=0))
    masses, _ = nnls(kernel / kernel.sum(axis=0), estimate, maxiter=100_000)
    return np.sort(CANDIDATES[np.argsort(masses)[-count:]])


def found(values: Floats, guesses: Floats) -> int:
    """How many of the distinct values are near a guess."""
    return int((np.abs(np.unique(values)[:, None] - guesses).min(axis=1) <= NEAR).sum())


def attacks(samples: dict[str, Floats]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """What the parents of all nodes read without masks; and with masks the root, from the sums over all nodes: as many
    ages as each node has."""
    measures, sizes = list(samples.values()), np.array([len(values) for values in samples.values()], dtype=float)
    result = bm.barycenter(
        measures, POINTS, reg=REG, weights="size", network=GRAPH, method="rounds", duration=600.0, progress=False
    )
    shares, potentials = sizes / sizes.sum(), result.duals / REG
    read = {
        name: read_records(potentials[k], result.node_weights[k], np.unique(values).size)
        for k, (name, values) in enumerate(samples.items())
    }
    together = np.exp(shares @ np.log(result.node_weights))
    seen = {
        name: read_records(shares @ potentials, together / together.sum(), np.unique(values).size)
        for name, values in samples.items()
    }
    return read, seen


def guesses(barycenter: Floats, count: int) -> Floats:
    """Who knows the barycenter, and nothing else, guesses its quantiles."""
    return np.interp((np.arange(count) + 0.5) / count, np.cumsum(barycenter), POINTS)


def draw(
    samples: dict[str, Floats], result: bm.Result, read: dict[str, Floats], seen: dict[str, Floats], path: Path
) -> None:
    """Left the institutions and their barycenter, right what the attack reads."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), sharex=True, layout="constrained")
    for row, (name, values) in enumerate(samples.items()):
        for axes in (left, right):
            axes.plot(values, np.full(values.size, row), "o", color="0.55", markersize=4)
        right.plot(read[name], np.full(read[name].size, row), "x", color="tab:red")
    # below the institutions: what they have in common, and what is left to the attack
    bottom, height = -5.5, 4.5
    left.fill_between(POINTS, bottom, bottom + height * result.weights / result.weights.max(), color="tab:blue")
    most = max(seen.values(), key=len)
    right.plot(most, np.full(most.size, bottom + height / 2), "x", color="tab:blue")
    for axes, below in ((left, "barycenter"), (right, "sum of all")):
        axes.set_yticks([bottom + height / 2, *range(len(samples))], [below, *samples])
        axes.set_ylim(bottom, len(samples))
    left.set_title(f"{len(samples)} institutions, and what they have in common")
    right.set_title("Read from each without masks (red), with masks (blue)")
    for axes in (left, right):
        axes.set_xlabel("age in years")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("lung"), help="a folder that does not exist yet")
    parser.add_argument("--smallest", type=int, default=None, help="take only so many institutions, the smallest")
    options = parser.parse_args()
    everybody = institutions()
    chosen = sorted(everybody, key=lambda name: everybody[name].size)[: options.smallest]
    samples = {name: values for name, values in everybody.items() if name in chosen}
    began = time.monotonic()
    result = run_peers(options.output, samples)
    print(f"{len(samples)} nodes, {time.monotonic() - began:.0f} s: {result}")
    pooled = bm.barycenter(list(samples.values()), POINTS, reg=REG, weights="size", tol=1e-9)
    print(f"total variation to the barycenter of pooled data: {np.abs(result.weights - pooled.weights).sum() / 2:.1g}")
    read, seen = attacks(samples)
    distinct = sum(np.unique(values).size for values in samples.values())
    hits = sum(found(values, read[name]) for name, values in samples.items())
    print(f"without masks the parents find {hits} of {distinct} ages")
    left = sum(found(values, seen[name]) for name, values in samples.items())
    guessed = sum(found(values, guesses(result.weights, np.unique(values).size)) for values in samples.values())
    print(f"with masks {left}; who knows the barycenter only guesses {guessed}")
    draw(samples, result, read, seen, options.output / "lung.png")


if __name__ == "__main__":
    main()
