"""Links, without a network: those on disk lead to files and headings that exist, those to elsewhere are well-formed."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

from tests.docs.blocks import ROOT, pages

PAGES = [*pages(), ROOT / "CHANGELOG.md"]
# written when the site is built
GENERATED = ("docs/gallery/", "docs/_build/")


def links(page: Path) -> list[str]:
    """The targets of all links and pictures of a page."""
    tokens = MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
    inline = [child for token in tokens for child in token.children or ()]
    found = [child.attrGet("href") or child.attrGet("src") for child in inline if child.type in ("link_open", "image")]
    return [str(target) for target in found if target]


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    titles = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def wrong(page: Path, target: str) -> str | None:
    """What is wrong with a link, if anything is."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        fine = parts.scheme in ("http", "https", "mailto") and (parts.netloc.count(".") or parts.scheme == "mailto")
        return None if fine else "is not an address"
    there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not there.exists():
        known = there.is_relative_to(ROOT) and str(there.relative_to(ROOT)).startswith(GENERATED)
        return None if known else "does not exist"
    if not there.is_relative_to(ROOT):
        return "is outside the repository"
    # headings made from the program are checked on the built site
    written = there.suffix == ".md" and "<!-- commands -->" not in there.read_text(encoding="utf-8")
    return "has no such heading" if parts.fragment and written and parts.fragment not in anchors(there) else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not [f"{target} {why}" for target in links(page) if (why := wrong(page, target))]


def test_every_picture_of_the_documentation_is_shown_and_described() -> None:
    shown = {(page.parent / target).resolve() for page in PAGES for target in links(page) if target.endswith(".png")}
    unused = [path.name for path in (ROOT / "docs" / "images").glob("*.png") if path.resolve() not in shown]
    assert not unused
    silent = [str(page) for page in PAGES if "![](" in page.read_text(encoding="utf-8")]
    assert not silent
