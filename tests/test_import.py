"""Importing barymesh is light: what is heavy comes in when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = [
    "matplotlib", "scipy.stats", "rich", "typer", "pydantic", "networkx", "sklearn", "bokeh", "IPython",
]  # fmt: skip


@pytest.fixture(scope="module")
def imported():
    """The modules a fresh interpreter holds after ``import barymesh``."""
    code = "import sys, barymesh; print('\\n'.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_barymesh_itself_is_imported(imported):
    assert "barymesh.api" in imported


@pytest.mark.parametrize("name", HEAVY)
def test_import_leaves_heavy_modules_out(name, imported):
    assert name not in imported


def test_import_prints_nothing():
    done = subprocess.run([sys.executable, "-c", "import barymesh"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_public_names_are_there_and_nothing_else_is_shown():
    import barymesh

    for name in barymesh.__all__:
        assert hasattr(barymesh, name)
    assert [name for name in dir(barymesh) if not name.startswith("__")] == sorted(barymesh.__all__)
