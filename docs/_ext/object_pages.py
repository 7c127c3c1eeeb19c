"""Every object of the API on a page of its own.

The pages in docs/reference name the objects by topic, with autodoc's directives. When the site is built each of these
directives becomes a page in docs/reference/objects, and a line with a link to it takes its place.
"""

from __future__ import annotations

import inspect
import pydoc
import re
import shutil
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parents[1] / "reference"
PAGES = REFERENCE / "objects"
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function):: ([\w.]+)(?:\(\))?\n(?:   :.*\n)*", re.MULTILINE)
MODULE = re.compile(r"^\.\. (?:current)?module:: (\S+)$", re.MULTILINE)


def objects(source: str) -> list[tuple[str, str, str]]:
    """Of every directive on a page: its text, the module it stands under, and the full name of its object."""
    found = []
    for match in DIRECTIVE.finditer(source):
        name = match.group(1)
        module = [one.group(1) for one in MODULE.finditer(source, 0, match.start())][-1]
        found.append((match.group(0), module, name if name.startswith("barymesh.") else f"{module}.{name}"))
    return found


def _write_pages(_app: Any) -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir()
    for topic in REFERENCE.glob("*.md"):
        for directive, module, name in objects(topic.read_text()):
            title = name.rpartition(".")[2]
            text = f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: {module}\n\n{directive}"
            (PAGES / f"{name}.rst").write_text(text)


def _link(_app: Any, page: str, source: list[str]) -> None:
    if Path(page).parent.name != REFERENCE.name:
        return
    found = objects(source[0])
    for directive, _, name in found:
        summary = (inspect.getdoc(pydoc.locate(name)) or "").partition("\n\n")[0].replace("\n", " ")
        source[0] = source[0].replace(directive, f"* :py:obj:`~{name}`: {summary}\n", 1)
    if found:
        pages = "\n".join(f"objects/{name}" for _, _, name in found)
        source[0] += f"\n```{{toctree}}\n:hidden:\n{pages}\n```\n"


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _link)
    return {"parallel_read_safe": True}
