"""Small programs, each in a process of its own, by this version of barymesh and by an older one.

If the environment variable ``BARYMESH_BENCH_OLD`` names the Python of an environment with an older barymesh, that one
is measured too. The programs are the same for both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from barymesh.errors import OptionError
from benchmarks.images import digits

VARIABLE = "BARYMESH_BENCH_OLD"
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


@dataclass(frozen=True)
class Version:
    """A barymesh, and the Python that has it."""

    name: str
    python: str
    own: bool


OURS = Version("ours", sys.executable, own=True)


def versions() -> list[Version]:
    """Ours, and the older one if there is one."""
    old = os.environ.get(VARIABLE)
    if not old:
        return [OURS]
    if not Path(old).is_file():
        raise OptionError(f"{VARIABLE} is {old!r}, which is no file. Give the path of a Python, or unset it.")
    return [OURS, Version("old", str(Path(old).absolute()), own=False)]


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
def running(version: Version, arguments: Sequence[str], folder: Path, cache: Path | None = None) -> Iterator[Program]:
    """Python with these arguments in this folder, until the block ends. ``cache``: where versions that compile at run
    time keep what they have compiled."""
    environment = {name: value for name, value in os.environ.items() if version.own or name != "PYTHONPATH"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    errors = folder / "errors.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [version.python, "-W", "ignore", *arguments],
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
        )  # fmt: skip
    try:
        yield Program(process, errors)
    finally:
        process.kill()
        process.communicate()
