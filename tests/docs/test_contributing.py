"""The guide for contributors: its journeys through the code name functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
MOST_HOPS = 8


def journeys():
    """The hops of each journey, as (file, name)."""
    found = {}
    for title, text in re.findall(r"^\*\*(.+?)\*\*\n\n((?:\d+\. .+\n)+)", GUIDE, re.MULTILINE):
        found[title] = re.findall(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", text, re.MULTILINE)
        assert len(found[title]) == len(text.splitlines())
    return found


def defined_names(file):
    names = set()

    def visit(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(f"{prefix}{child.name}")
                visit(child, f"{prefix}{child.name}.")

    visit(ast.parse(file.read_text()), "")
    return names


def test_there_are_three_short_journeys():
    assert len(journeys()) == 3
    assert all(1 < len(hops) <= MOST_HOPS for hops in journeys().values())


@pytest.mark.parametrize("title", journeys())
def test_every_hop_of_a_journey_exists(title):
    for file, name in journeys()[title]:
        assert name in defined_names(ROOT / "src" / "barymesh" / file), f"{file} has no {name}"


def test_every_folder_and_file_in_the_table_exists():
    rows = re.findall(r"^\| .+? \| (.+?) \|$", GUIDE, re.MULTILINE)
    places = [place for row in rows for place in re.findall(r"`([\w/.]+(?:/|\.py))`", row)]
    assert len(places) > 20
    folders = [ROOT, ROOT / "src" / "barymesh", ROOT / "src" / "barymesh" / "measures"]
    assert [place for place in places if not any((folder / place).exists() for folder in folders)] == []
