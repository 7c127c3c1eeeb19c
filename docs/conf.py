"""How the site is built: ``make docs``. Nothing is fetched from a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import barymesh

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
GALLERY = HERE.parent / "examples" / "gallery"

project = "barymesh"
author = "The barymesh developers"
copyright = author
release = version = barymesh.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_copybutton",
    # formulas: MathJax is copied into the site, and loaded from there
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "command_reference",
    "object_pages",
    "table_reference",
]
exclude_patterns = ["_build", "**/README.txt"]
nitpicky = True

# ---- Markdown
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
highlight_language = "none"
# -- is two hyphens, as in --option
smartquotes = False
# pages of the repository that are pages of the site too: links to them stay within it
ELSEWHERE = {
    "../../benchmarks/results/latest.md": "../reference/measurements.md",
    "../../CONTRIBUTING.md": "../contributing.md",
}

# ---- code
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
add_module_names = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# ---- pages
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"barymesh {release}"
html_copy_source = False
html_show_sphinx = False

# ---- the gallery: scripts that are run, with what they print and draw
HAS_GALLERY = any(GALLERY.glob("*.py"))
if HAS_GALLERY:
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(GALLERY)],
        "gallery_dirs": ["gallery"],
        "filename_pattern": r"\.py$",
        "abort_on_example_error": True,
        "reset_modules": ("matplotlib",),
        "image_scrapers": ("matplotlib", "gif_scraper.scrape_animations"),
        "remove_config_comments": True,
        "download_all_examples": False,
        "show_memory": False,
        "show_signature": False,
        "write_computation_times": False,
        "min_reported_time": 10_000,
    }


def _stay_within(_app: Any, page: str, source: list[str]) -> None:
    for there, here in ELSEWHERE.items():
        source[0] = source[0].replace(f"({there})", f"({here})")
    if page == "index" and not HAS_GALLERY:
        source[0] = source[0].replace("gallery/index\n", "")


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _stay_within)
