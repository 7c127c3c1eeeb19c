"""The pages that are written from the program: every command, option, key and network is in them."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from barymesh.cli.config import RUN, SIMULATE, Gaussians
from barymesh.cli.config_file import known_keys
from barymesh.extras import EXTRAS
from barymesh.network import GENERATORS
from tests.docs.blocks import ROOT


def extension(name: str) -> ModuleType:
    """A module of the site's own extensions, which are no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


commands = extension("command_reference")
tables = extension("table_reference")


@pytest.mark.parametrize("name", [name for name, _ in commands.commands()])
def test_every_command_has_a_section_with_all_its_options(name: str) -> None:
    page = commands.as_markdown()
    section = page.split(f"## {name}\n", 1)[1].split("\n## ", 1)[0]
    command = dict(commands.commands())[name]
    for option in [one for one in command.params if not getattr(one, "hidden", False)]:
        assert option.opts[0] in section, option.opts


def test_all_commands_are_known_to_the_reference() -> None:
    names = {name for name, _ in commands.commands()}
    assert {"barymesh barycenter", "barymesh simulate", "barymesh network create", "barymesh node"} <= names
    assert commands.PLACE in (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")


def test_examples_and_files_in_the_help_become_blocks_of_code() -> None:
    page = commands.as_markdown()
    assert "```bash\nbarymesh barycenter scans/ --reg 0.004 -o mean-scan\n" in page
    assert '```toml\ndata = ["hospital-a.csv", "hospital-b.csv"]\nreg = 0.01\n' in page
    assert "- `130`: interrupted" in page


def test_every_key_and_every_network_is_in_the_tables() -> None:
    keys, networks = tables.configuration(), tables.networks()
    for key in (*known_keys(RUN), *known_keys(SIMULATE), *Gaussians.fields()):
        assert f"| `{key}` |" in keys, key
    for key in {**known_keys(RUN), **known_keys(SIMULATE)}:
        assert keys.count(f"| `{key}` |") == (2 if key in Gaussians.fields() else 1), key
    assert "| `delays` | How long messages take" in keys
    assert '| `"categorical"` | simulation |' in keys
    assert not [name for name in GENERATORS if f"| `{name}` |" not in networks]
    assert "|  |" not in "".join(line.split("|", 2)[2] for line in networks.splitlines() if "barbell" in line)


def test_every_extra_is_in_the_table_of_its_page() -> None:
    page = (ROOT / "docs" / "reference" / "extras.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{extra}` | {purpose} |" for extra, purpose in EXTRAS.items()]
