"""From the start of a process to its first result.

Every process is a fresh one, and finds nothing that an earlier one has compiled or computed. The clock runs from its
start until it prints that it has the result, so that loading Python, NumPy and barymesh is included. The processes
take turns.
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from barymesh.peers.members import KITS, NewNode, create
from barymesh.peers.status import query
from benchmarks.parts import Part, Row, Table
from benchmarks.programs import IMAGES, IMPORTS, NETWORK, TWO_GAUSSIANS, running, write_images
from benchmarks.tables import in_line

TURNS, QUICK_TURNS = 7, 2
# the program and its target in seconds, by what it does
PROGRAMS = {
    "import barymesh": ("import barymesh", 0.2),
    "two Gaussians": (IMPORTS + TWO_GAUSSIANS, 0.5),
    "10 images of 28 x 28": (IMPORTS + IMAGES.format(count=10), 0.7),
    "the README's network": (IMPORTS + NETWORK, 1.5),
}
NODE, NODE_TARGET = "barymesh node, until it has been active", 2.0
# seconds between two looks at the status of the node, and until it is given up
LOOK, PATIENCE = 0.005, 300.0
TEXT = "*seconds*: the median of {turns} processes, *best* the fastest of them."


def run(quick: bool, say: Callable[[str], None]) -> Part:
    """All programs."""
    turns = QUICK_TURNS if quick else TURNS
    starts: dict[str, tuple[Callable[[Path], float], float]] = {
        **{name: (_printing(text), target) for name, (text, target) in PROGRAMS.items()},
        NODE: (node_seconds, NODE_TARGET),
    }
    found: dict[str, list[float]] = {name: [] for name in starts}
    for _ in range(turns):
        for name, (seconds, _) in starts.items():
            with tempfile.TemporaryDirectory() as folder:
                write_images(Path(folder))
                found[name].append(seconds(Path(folder)))
    rows: list[Row] = []
    for name, (_, target) in starts.items():
        times = found[name]
        rows.append({"program": name, "seconds": statistics.median(times), "best": min(times), "target": target})
        say(in_line(rows[-1]))
    text = TEXT.format(turns=turns)
    return Part("First result of a fresh process", (__doc__ or "").partition("\n\n")[2], [Table("", text, rows)])


def _printing(text: str) -> Callable[[Path], float]:
    """Seconds until the program with this text is done."""

    def seconds(folder: Path) -> float:
        began = time.perf_counter()
        with running(["-c", f"{text}\nprint('done', flush=True)"], folder) as program:
            program.read()
            return time.perf_counter() - began

    return seconds


def node_seconds(folder: Path) -> float:
    """Seconds until a node that is started by the command has been active once."""
    port = _free_port()
    nodes = [NewNode(name, f"ipc://{folder}/{name}", status_port=port if name == "a" else None) for name in "ab"]
    create(folder / "made", nodes, ["ab"], support="80:-6:6", reg=0.2)
    (folder / "samples.csv").write_text("x\n-1\n0\n0.5\n")
    kit = folder / "made" / KITS / "a"
    began = time.perf_counter()
    with running(["-m", "barymesh", "node", str(kit), "--data", "samples.csv", "--yes"], folder) as node:
        while time.perf_counter() < began + PATIENCE:
            if (query(port) or {}).get("activations"):
                return time.perf_counter() - began
            if node.process.poll() is not None:
                node.ended()
            time.sleep(LOOK)
    return float("inf")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
