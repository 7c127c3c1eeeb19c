"""The reference: all that is public is in it, its docstrings are complete, and the examples in them are true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from typing import Any

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc

import barymesh
import barymesh.network
import barymesh.scenario
from tests.docs.blocks import ROOT

DIRECTIVE = re.compile(r"\.\. (module|currentmodule|autofunction|autoclass):: ([\w.]+)(\(\))?|:members: (.+)")
SECTIONS = ("Parameters", "Other Parameters", "Attributes")
# in the list of public names, but no classes or functions of use by themselves
TOOLS = {"GENERATORS", "Delay", "Event", "Fault", "Schedule", "require_unweighted", "BarymeshError"}


def referenced() -> dict[str, tuple[Any, bool]]:
    """All that the reference describes, by name: the object, and whether its users make it themselves."""
    found: dict[str, tuple[Any, bool]] = {}
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        module, last = "", ""
        for kind, name, unsigned, members in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if "module" in kind:
                module = name
            elif kind:
                place, _, last = name.rpartition(".")
                full = f"{place or module}.{last}"
                found[full] = getattr(importlib.import_module(place or module), last), not unsigned
                last = full
            else:
                owner = found[last][0]
                found |= {f"{last}.{one}": (getattr(owner, one), True) for one in re.findall(r"\w+", members)}
    return found


REFERENCED = referenced()
DOCUMENTED = {name: (one, made) for name, (one, made) in REFERENCED.items() if inspect.isclass(one) or callable(one)}


def test_the_reference_has_all_public_names() -> None:
    objects = [one for one, _ in REFERENCED.values()]
    for module in (barymesh, barymesh.network, barymesh.scenario):
        missing = [name for name in module.__all__ if name not in TOOLS and getattr(module, name) not in objects]
        assert not missing, f"{module.__name__}: {missing}"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_docstring_describes_every_argument_and_what_is_returned(name: str) -> None:
    described, made = DOCUMENTED[name]
    if name.startswith("barymesh.Status"):
        return
    doc = ClassDoc(described) if inspect.isclass(described) else FunctionDoc(described)
    assert "".join(doc["Summary"]).strip(), f"{name} says nothing"
    listed = {part.strip().lstrip("*") for section in SECTIONS for one in doc[section] for part in one.name.split(",")}
    arguments = [one for one in inspect.signature(described).parameters.values() if one.name != "self"]
    if made:
        missing = [one.name for one in arguments if one.name not in listed]
        assert not missing, f"{name} does not say what {missing} are"
        named = {part.strip().lstrip("*") for one in doc["Parameters"] for part in one.name.split(",")}
        assert named <= {one.name for one in arguments}, f"{name} has no {named - {one.name for one in arguments}}"
    if not inspect.isclass(described):
        assert doc["Returns"], f"{name} does not say what it returns"


@pytest.mark.parametrize("name", sorted({one.__module__ for one, _ in DOCUMENTED.values()} | {"barymesh"}))
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_most_things_have_an_example() -> None:
    public = [getattr(barymesh, name) for name in barymesh.__all__ if name not in ("BarymeshError", "Measure", "load")]
    assert not [one.__name__ for one in public if ">>>" not in inspect.getsource(one)]
