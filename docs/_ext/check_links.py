"""Check the links of the built site without a network: ``python docs/_ext/check_links.py docs/_build/html``.

Every link within the site must lead to a page that exists and, after a #, to a place on it.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The names of the places on a page, and where its links and pictures lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.targets: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.places.add(value)
            elif value and (name, tag) in (("href", "a"), ("href", "link"), ("src", "img"), ("src", "script")):
                self.targets.add(value)


def broken(site: Path) -> list[str]:
    """Every link that leads nowhere, and every resource on another machine that a page needs."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for target in sorted(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            lost = there in pages and parts.fragment and unquote(parts.fragment) not in pages[there].places
            if not there.exists() or lost:
                found.append(f"{path.relative_to(site.resolve())}: {target}")
    return found


if __name__ == "__main__":
    site = Path(sys.argv[1])
    if not (site / "index.html").exists():
        sys.exit(f"There is no site in {site}.")
    lost = broken(site)
    print("\n".join(lost) or f"All links within {site} lead somewhere.")
    sys.exit(bool(lost))
