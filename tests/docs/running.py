"""Run the code of a page, in a folder with small data of the kinds that the pages speak of."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
import tomllib
import uuid
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from barymesh import errors
from barymesh.cli.app import app
from barymesh.cli.config import RUN, SIMULATE
from barymesh.cli.config_file import read_config
from tests.docs.blocks import ROOT, Block, blocks

# seconds that a command in the background may take for what the page waits for
PATIENCE = 120


def prepare(folder: Path) -> None:
    """The small data: samples of three parties (a.csv, b.csv, c.csv), a folder of pictures (scans), a configuration
    (config.toml), the examples."""
    rng = np.random.default_rng(0)
    for name, mean in (("a", -1.0), ("b", 0.5), ("c", 2.0)):
        np.savetxt(folder / f"{name}.csv", rng.normal(mean, 0.7, 200), fmt="%.6f")
    (folder / "scans").mkdir()
    down, right = np.mgrid[:24, :24]
    for k, (y, x) in enumerate(((8, 8), (14, 9), (11, 15))):
        blot = np.exp(-((down - y) ** 2 + (right - x) ** 2) / 18.0)
        Image.fromarray((255 * blot).astype(np.uint8)).save(folder / "scans" / f"scan-{k}.png")
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "config.toml").write_text('data = ["a.csv", "b.csv"]\nreg = 0.1\n', encoding="utf-8")


def run_page(page: Path) -> None:
    """Run all that can be run of a page, in the present folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.ExitStack() as others:
        for block in blocks(page):
            try:
                _run(block, namespace, others)
            except BaseException as error:
                error.add_note(f"in {block}:\n{block.text}")
                raise


def _run(block: Block, namespace: dict[str, Any], others: contextlib.ExitStack) -> None:
    notes = block.notes
    if "file" in notes:
        Path(notes["file"]).write_text(block.text, encoding="utf-8")
    if "not run" in notes or not all(map(find_spec, notes.get("run if", "").split())):
        return
    match block.language:
        case "python" | "setup":
            with _warning(notes.get("warns"), others_may="run if" in notes):
                exec(compile("\n" * block.line + block.text, str(block.page), "exec"), namespace)
        case "bash":
            for words in block.commands():
                if "background" in notes:
                    others.enter_context(_beside(words))
                else:
                    _command(words, int(notes.get("exit", 0)))
        case "toml":
            _check_config(block)
        case "json":
            json.loads(block.text)


def _command(words: list[str], code: int) -> None:
    assert words[0] == "barymesh", f"{words[0]} cannot be run here; say why it is not run in a note above"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == code, f"{' '.join(words)} ended with {done.exit_code}:\n{done.output}{done.exception!r}"


@contextlib.contextmanager
def _beside(words: list[str]) -> Iterator[None]:
    """The command runs while the block does, in a process of its own."""
    with Path(f"output-{uuid.uuid4().hex}").open("w") as said:
        process = subprocess.Popen([sys.executable, "-m", *words], stdout=said, stderr=said)
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def wait_until(so: Callable[[], bool]) -> None:
    """Wait for what commands in the background are to bring about."""
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end, f"in vain: {[path.read_text() for path in Path().glob('output-*')]}"
        time.sleep(0.1)


def _check_config(block: Block) -> None:
    """A file that has reg is one of ours: for a network if it names one."""
    found = tomllib.loads(block.text)
    if "reg" in found and "data" in found | {"data": found.get("gaussians")}:
        path = Path(block.notes.get("file", "block.toml"))
        path.write_text(block.text, encoding="utf-8")
        read_config(path, SIMULATE if "network" in found else RUN)


@contextlib.contextmanager
def _warning(name: str | None, *, others_may: bool) -> Iterator[None]:
    """The block must give the warning of this name, if there is one, and no other; packages of others may give any."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore" if others_may else "error")
        if name is not None:
            warnings.simplefilter("always", getattr(errors, name))
        yield
    assert bool(caught) == (name is not None), f"there was no {name}"
