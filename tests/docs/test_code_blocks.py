"""Every block of code in the README and the documentation is run, or says why it is not; see ``blocks.py``."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from tests.docs.blocks import ROOT, SETUP, blocks, check_command, pages
from tests.docs.running import prepare, run_page

# text: what programs print, formulas
LANGUAGES = {"python", "bash", "toml", "json", "text", SETUP}
# run by tests/engines/test_ray.py, on the cluster that it has
ON_A_CLUSTER = ROOT / "docs" / "tutorials" / "ray.md"
CODED = [page for page in pages() if page != ON_A_CLUSTER and any(block.language != "text" for block in blocks(page))]
EVERYWHERE = [block for page in pages() for block in blocks(page)]


@pytest.mark.parametrize("page", CODED, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_page(page)
    plt.close("all")


def test_every_block_says_what_it_is() -> None:
    assert not [f"{block}: {block.language!r}" for block in EVERYWHERE if block.language not in LANGUAGES]


def test_what_is_not_run_says_why_and_is_right_as_far_as_one_can_tell() -> None:
    unrun = [block for block in EVERYWHERE if "not run" in block.notes]
    for block in unrun:
        assert len(block.notes["not run"]) > 8, block
        if block.language == "python":
            compile(block.text, str(block), "exec")
        if block.language == "toml":
            tomllib.loads(block.text)


def test_every_command_shown_has_only_options_that_exist() -> None:
    shown = [words for block in EVERYWHERE if block.language == "bash" for words in block.commands()]
    ours = [words for words in shown if words[0] == "barymesh"]
    assert len(ours) > 20
    for words in ours:
        try:
            check_command(words)
        except Exception as error:
            pytest.fail(f"{shlex.join(words)}: {error}")
