"""The first and the last step of the demonstration in compose.yaml. ``python demo.py prepare SITES USER`` makes the
network, and gives each site its kit and its data, in SITES/NAME, owned by that user; ``python demo.py result SITES``
compares the results of the sites."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import barymesh as bm
from barymesh.peers import members, network_file
from barymesh.peers.members import KITS, NewNode
from barymesh.support.text import parse_support

NODES = [NewNode(name, f"tcp://{name}:5555", status_port=5701 + k) for k, name in enumerate("abcde")]
# a ring and a chord
EDGES = ["ab", "bc", "cd", "de", "ea", "ac"]
SUPPORT, REG = "80:-6:6", 0.2


def prepare(sites: Path, user: int, nodes: Sequence[NewNode] = NODES) -> None:
    """Fill the folders of the sites, which exist and are empty. Nothing is changed if they are filled already."""
    if (sites / nodes[0].name / network_file.NETWORK).exists():
        print("The sites have their kits already.")
        return
    with tempfile.TemporaryDirectory() as folder:
        made = members.create(Path(folder), nodes, EDGES, support=SUPPORT, reg=REG)
        for k, node in enumerate(nodes):
            site = sites / node.name
            for file in (Path(folder) / KITS / node.name).iterdir():
                # with the permissions of the secret key
                target = site / file.name
                target.touch(mode=file.stat().st_mode & 0o777)
                target.write_bytes(file.read_bytes())
            np.savetxt(site / "data.csv", samples(k), header="x", comments="")
            for path in (*site.iterdir(), site):
                os.chown(path, user, -1)
    print(f"Network {made.fingerprint}: {len(nodes)} sites have their kits and data.")


def samples(k: int) -> np.ndarray:
    """The samples of site k: further to the right, and wider, from site to site."""
    return np.random.default_rng(k).normal(k - 2, 0.4 + 0.2 * k, 200)


def result(sites: Path) -> None:
    """Print mean and spread of each site's barycenter, and its distance to that of all data in one place."""
    folders = [sites / node.name for node in NODES]
    truth = bm.barycenter(
        bm.read_measures([folder / "data.csv" for folder in folders]), parse_support(SUPPORT), reg=REG, tol=1e-9
    )
    print("site    mean  spread  total variation to the barycenter of all data")
    for folder in folders:
        found = bm.load(folder / "run" / "result.npz")
        points, weights = found.support.points[:, 0], found.weights
        mean = weights @ points
        spread = np.sqrt(weights @ (points - mean) ** 2)
        print(f"{folder.name:4} {mean:7.4f} {spread:7.4f}  {0.5 * np.abs(weights - truth.weights).sum():.1e}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", folder, user]:
            prepare(Path(folder), int(user))
        case ["result", folder]:
            result(Path(folder))
        case _:
            sys.exit(__doc__)
