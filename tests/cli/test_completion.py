"""Tab in a real shell offers commands, options and the names that options take."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash")
SCRIPT = Path(sys.executable).with_name("barymesh")


@pytest.fixture(scope="module")
def shell_function():
    """What ``barymesh --show-completion`` tells people to put into their shell, which it looks for among the processes
    above it."""
    code = f"{shlex.quote(str(SCRIPT))} --show-completion; exit $?"
    return subprocess.run([BASH, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("barymesh sim", {"simulate"}),
        ("barymesh doctor --j", {"--json"}),
        ("barymesh barycenter a.csv --cost eu", {"euclidean"}),
        ("barymesh barycenter a.csv --as ", {"samples", "image", "histogram"}),
        ("barymesh simulate net.toml --engine p", {"processes"}),
        ("barymesh compare net.toml --methods a2dwb,dc", {"a2dwb,dcwb"}),
    ],
)
def test_tab(shell_function, line, offered):
    words = line.split(" ")
    listed = " ".join(shlex.quote(word) for word in words)
    code = (
        f"{shell_function}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}\n"
        f"_barymesh_completion {shlex.quote(str(SCRIPT))}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    environment = {**os.environ, "PATH": f"{SCRIPT.parent}:{os.environ['PATH']}"}
    done = subprocess.run([BASH, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert set(done.stdout.split()) == offered
