"""Small programs, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.images import digits

NUMBERS_OF_IMAGES = (10, 100)
IMPORTS = "import numpy as np\nimport barymesh as bm\n"
TWO_GAUSSIANS = "bm.barycenter([bm.Gaussian(-2, 0.5), bm.Gaussian(3, 1.0)], reg=0.05, progress=False)"
IMAGES = 'bm.barycenter(np.load("images-{count}.npy"), reg=0.004, progress=False)'
# the network of the README
NETWORK = """bm.barycenter(
    [bm.Gaussian(mean, 0.4) for mean in np.linspace(-3, 3, 20)],
    np.linspace(-5, 5, 100),
    reg=0.1,
    network="erdos_renyi",
    delays="uniform:low=0.1,high=0.5",
    schedule="poisson:rate=5",
    faults=["loss:probability=0.1"],
    events=["leave:node=3,at=5"],
    reference=True,
    progress=False,
)"""


class ProgramError(Exception):
    """A program ended before it had answered."""


def write_images(folder: Path) -> None:
    """The files that ``IMAGES`` reads."""
    for count in NUMBERS_OF_IMAGES:
        np.save(folder / f"images-{count}.npy", digits(count))


class Program:
    """A running program. Lines can be written to it and read from it."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.process, self._errors = process, errors

    def read(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.ended()
        return line.strip()

    def ask(self, line: str) -> str:
        """The line that it answers with."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.read()

    def ended(self) -> None:
        """Raise ProgramError with its last words."""
        code, lines = self.process.wait(), self._errors.read_text().strip().splitlines()
        raise ProgramError(f"{self.process.args!r} ended with code {code}: {lines[-1] if lines else 'no message'}")


@contextmanager
def running(arguments: Sequence[str], folder: Path) -> Iterator[Program]:
    """Python with these arguments in this folder, until the block ends."""
    errors = folder / "errors.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
        )  # fmt: skip
    try:
        yield Program(process, errors)
    finally:
        process.kill()
        process.communicate()
