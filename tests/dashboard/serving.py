"""A real ``barymesh dashboard`` process, for tests that visit it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

from tests.peers.cluster import ENVIRONMENT

# nobody's browser may open
QUIET = {name: value for name, value in ENVIRONMENT.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}


@contextmanager
def serving(*arguments):
    """Its address. It must end in order when it is asked to."""
    command = [sys.executable, "-m", "barymesh", "dashboard", *map(str, arguments), "--no-browser"]
    process = subprocess.Popen(command, env=QUIET, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().removeprefix("Dashboard: ").strip()
        process.terminate()
        _, said = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, ""), said
    finally:
        process.kill()
        process.communicate()
