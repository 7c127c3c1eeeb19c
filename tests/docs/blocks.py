"""The blocks of code in the README and the documentation, and how to run them.

A page's Python blocks share one namespace, its commands and files one folder. What a reader need not see stands in an
HTML comment right above a block, or between blocks:

- ``<!-- setup ... -->``: Python that is run, but not shown
- ``<!-- not run: why -->``: the block is only read; Python must compile, commands must have known options
- ``<!-- run if: package -->``: not run where the package is missing
- ``<!-- warns: Class -->``: running the block must give this warning of ``barymesh.errors``
- ``<!-- exit: code -->``: the exit code of the commands of the block, if it is not 0
- ``<!-- background: until when -->``: the commands are started, and run on beside the rest of the page
- ``<!-- file: name -->``: the block is written to this file of the page's folder
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from markdown_it import MarkdownIt

from barymesh.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = ("_build", "gallery")
NOTE = re.compile(r"<!--\s*(setup\b|not run:|run if:|warns:|exit:|background:|file:)(.*?)-->", re.DOTALL)
SETUP = "setup"


@dataclass(frozen=True)
class Block:
    """One block of code: where it stands, what it is, and what the notes above it say."""

    page: Path
    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"

    def commands(self) -> list[list[str]]:
        """The commands of a shell block as words, without comments; lines that end in a backslash go on."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def pages() -> list[Path]:
    """All pages that may hold code."""
    return [page for page in PAGES if not set(page.relative_to(ROOT).parts) & set(GENERATED)]


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in their order, hidden ones too; directives of Sphinx are none."""
    notes: dict[str, str] = {}
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        line = (token.map or [0])[0] + 1
        if token.type == "html_block":
            for kind, said in NOTE.findall(token.content):
                if kind == SETUP:
                    yield Block(page, line, SETUP, said)
                else:
                    notes[kind.rstrip(":")] = said.strip()
        elif token.type in ("fence", "code_block"):
            language = token.info.strip() if token.type == "fence" else "indented"
            if not language.startswith("{"):
                yield Block(page, line, language, token.content, notes)
            notes = {}
        elif token.type == "paragraph_open":
            assert not notes, f"{page}, line {line}: a note about a block stands above something else: {notes}"


def check_command(words: list[str]) -> None:
    """An error of the parser if a ``barymesh`` command has an option that does not exist, or is no command."""
    command: Any = typer.main.get_command(app)
    name, rest = words[0], words[1:]
    while hasattr(command, "commands"):
        context = command.make_context(name, rest[:0], resilient_parsing=True)
        if not rest or rest[0].startswith("-"):
            command.make_context(name, rest, resilient_parsing=True)
            return
        name, command, rest = command.resolve_command(context, rest)
    command.make_context(name, rest, resilient_parsing=True)
