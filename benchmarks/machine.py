"""The machine that a measurement ran on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from barymesh.resources.cores import available_cores

PACKAGES = ("numpy", "numba", "POT", "ott-jax", "jax")


def machine() -> dict[str, Any]:
    """Processor, cores, threads, and the versions of Python and of the packages that take part."""
    import numba

    found = {"CPU": _processor(), "cores": available_cores(), "threads": numba.get_num_threads()}
    return found | {"Python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def in_words(found: dict[str, Any]) -> str:
    """The machine as part of a sentence."""
    packages = [f"{name} {found[name]}" for name in ("Python", *PACKAGES) if found.get(name)]
    missing = [name for name in PACKAGES if not found.get(name)]
    without = f", without {' and '.join(missing)}" if missing else ""
    cores = f"{found['cores']} cores (threads used: {found['threads']})"
    return f"{found['CPU']}, {cores}; {', '.join(packages)}{without}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    # platform.processor() says x86_64 on Linux
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
