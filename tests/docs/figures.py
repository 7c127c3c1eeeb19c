"""Make the documentation's figures again with the code of its pages: ``python -m tests.docs.figures [PAGE ...]``."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib as mpl

from tests.docs.blocks import ROOT, pages
from tests.docs.running import prepare, run_page

IMAGES = ROOT / "docs" / "images"


def shown(page: Path) -> set[str]:
    """The names of the figures that a page shows."""
    return set(re.findall(r"\]\((?:\.\./)*(?:docs/)?images/([\w-]+\.png)\)", page.read_text(encoding="utf-8")))


def make(page: Path) -> list[str]:
    """Run the page; the figures that it shows and has written itself are kept."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        prepare(Path(name))
        run_page(page)
        made = sorted(figure for figure in shown(page) if Path(figure).exists())
        for figure in made:
            shutil.copy(figure, IMAGES / figure)
    return made


if __name__ == "__main__":
    mpl.use("Agg")
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or [page for page in pages() if shown(page)]
    for page in chosen:
        print(page.relative_to(ROOT), *make(page))
