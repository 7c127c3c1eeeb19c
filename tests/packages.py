"""The packages that an installation brings, with and without extras, from pyproject.toml and what is installed here."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS_OF_PROJECT = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"test", "docs", "lint", "bench"}
# extras that are not among "all": they need environments of their own, docs/design/decisions.md
APART = {"flower": {"flwr"}, "nvflare": {"nvflare"}}


def needed_by(requirements):
    """The packages that come along, by name, all the way down."""
    found, seen = {}, set()
    # each with the extras of the package that requires it
    waiting = [(Requirement(text), {""}) for text in requirements]
    while waiting:
        one, wanted = waiting.pop()
        name = canonicalize_name(one.name)
        key = (name, frozenset(one.extras))
        if key in seen or (one.marker and not any(one.marker.evaluate({"extra": extra}) for extra in wanted)):
            continue
        seen.add(key)
        if name == PROJECT["name"]:
            waiting += [(Requirement(text), {""}) for extra in one.extras for text in EXTRAS_OF_PROJECT[extra]]
        else:
            found[name] = distribution(one.name)
            waiting += [(Requirement(text), {"", *one.extras}) for text in found[name].requires or []]
    return found


def core():
    """The packages that are there without any extra."""
    return needed_by(PROJECT["dependencies"])


# reads the metadata of all that is installed
owners_of_modules = cache(packages_distributions)


def modules_of(names):
    """The top modules of the packages of these names, as they are imported."""
    packages = set(names)
    return {
        module
        for module, owners in owners_of_modules().items()
        if not packages.isdisjoint(map(canonicalize_name, owners))
    }
