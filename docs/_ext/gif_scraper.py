"""Animations in the gallery, as GIFs: matplotlib's own HTML for them takes its buttons from the web."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.animation import FuncAnimation, PillowWriter
from sphinx_gallery.scrapers import figure_rst

FPS = 8


def scrape_animations(_block: Any, variables: dict[str, Any], conf: dict[str, Any], **_: Any) -> str:
    """Write the animations among the variables of an example that are new, and return their reStructuredText."""
    known = variables.setdefault("animations_written", set())
    paths = []
    for value in variables["example_globals"].values():
        if isinstance(value, FuncAnimation) and id(value) not in known:
            known.add(id(value))
            path = Path(next(variables["image_path_iterator"])).with_suffix(".gif")
            value.save(path, PillowWriter(fps=FPS), dpi=70)
            paths.append(str(path))
    return str(figure_rst(paths, conf["src_dir"]))
