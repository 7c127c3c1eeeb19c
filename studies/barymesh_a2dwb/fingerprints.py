"""Fingerprints of runs: equal fingerprints mean equal results, so that a finished run need not be made again.

A run depends on its settings, its data, and the source of the modules that compute it. These are found by following the
imports of ``runs.py``, those inside functions too. The source of the compiled kernels is all C++ files beside them, or
the extension itself where barymesh was installed from a wheel, which has no C++ files. The outer layers of the library
are left out: they read, show and transport results, and nothing that a run computes comes from them.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import resolve_name
from pathlib import Path

import numpy as np

import barymesh
from barymesh_a2dwb.experiments import ExperimentPlan, StudyPlan
from barymesh_a2dwb.storage import FORMAT

ENTRY = "barymesh_a2dwb.runs"
OUTER = tuple(f"barymesh.{layer}" for layer in ("cli", "dashboard", "io", "peers", "viz"))
PACKAGES = {"barymesh": Path(barymesh.__file__).parent, "barymesh_a2dwb": Path(__file__).parent}


def fingerprints(plan: StudyPlan) -> dict[str, str]:
    """The fingerprint of every run and reference of a study, by file name."""
    program = program_digest()
    found: dict[str, str] = {}
    for case in (*plan.cases.values(), *([] if plan.bias is None else [plan.bias])):
        common = {"format": FORMAT, "program": program, "measures": _measures(case), "times": case.times}
        shared = common | asdict(case.setting)
        for experiment, reg in plan.references():
            if experiment == case.name:
                found[plan.reference_file(experiment, reg)] = _digest(json.dumps(shared | {"reg": reg}).encode())
        for job in plan.jobs():
            if job.experiment == case.name:
                found[plan.file(job)] = _digest(json.dumps(shared | asdict(job)).encode())
    return found


@lru_cache(maxsize=1)
def program_digest() -> str:
    """A digest of the source that a run depends on."""
    return digest_of(source_files())


def digest_of(files: Mapping[str, Path]) -> str:
    """A digest of the files' names and content."""
    return _digest(*(part for name, path in sorted(files.items()) for part in (name.encode(), path.read_bytes())))


def source_files(entry: str = ENTRY, packages: Mapping[str, Path] = PACKAGES) -> dict[str, Path]:
    """The files of ``entry`` and of the modules that it imports, directly or not, by name.

    ``packages``: the folders of the packages whose modules are followed.
    """
    found: dict[str, Path] = {}
    waiting = [entry]
    while waiting:
        module = waiting.pop()
        if module in found or any(f"{module}.".startswith(f"{layer}.") for layer in OUTER):
            continue
        path = _file(module, packages)
        if path is None:
            found |= {f"{module}/{file.name}": file for file in _compiled_files(module, packages)}
            continue
        found[module] = path
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for name in _imported(ast.parse(path.read_text()), package):
            # of "package.name" it is not known whether name is a module or something defined in the package
            is_module = _file(name, packages) or _compiled_files(name, packages)
            waiting += [name if is_module else name.rpartition(".")[0]]
    return found


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """What a module imports, by full name; imports for type checking alone are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _imported(ast.Module(node.orelse, []), package)
        else:
            yield from _imported(node, package)


def _file(module: str, packages: Mapping[str, Path]) -> Path | None:
    """The file of a module in Python of these packages; None for anything else."""
    place = _place(module, packages)
    if place is None:
        return None
    candidates = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


def _compiled_files(module: str, packages: Mapping[str, Path]) -> list[Path]:
    """The C++ files of a compiled module of these packages, or the extension itself; none for anything else."""
    place = _place(module, packages)
    # its types are in a file of their own
    if place is None or not place.with_name(f"{place.name}.pyi").is_file():
        return []
    sources = [*place.parent.glob("*.cpp"), *place.parent.glob("*.h")]
    built = (place.with_name(place.name + suffix) for suffix in EXTENSION_SUFFIXES)
    return sources or [path for path in built if path.is_file()]


def _place(module: str, packages: Mapping[str, Path]) -> Path | None:
    """Where a module of these packages is, without the ending of its file; None for anything else."""
    top, *rest = module.split(".")
    return packages[top].joinpath(*rest) if top in packages else None


def _measures(case: ExperimentPlan) -> str:
    """A digest of the measures and the support."""
    problem = case.problem
    parts = [problem.support.points, problem.weights]
    parts += [array for atoms in problem.atoms for array in (atoms.points, atoms.weights)]
    return _digest(*(np.ascontiguousarray(part).tobytes() for part in parts))


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
