"""The machine that a measurement ran on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from barymesh.core import kernels
from barymesh.resources.cores import available_cores

PACKAGES = ("numpy", "POT", "ott-jax", "jax")


def machine() -> dict[str, Any]:
    """Processor, cores, threads, instruction set, and the versions of Python and of the packages that take part."""
    found = {"CPU": _processor(), "cores": available_cores(), "threads": kernels.threads()}
    found |= {"instruction set": kernels.INSTRUCTION_SET, "Python": platform.python_version()}
    return found | {name: _version(name) for name in PACKAGES}


def in_words(found: dict[str, Any]) -> str:
    """The machine as part of a sentence."""
    packages = [f"{name} {found[name]}" for name in ("Python", *PACKAGES) if found.get(name)]
    missing = [name for name in PACKAGES if not found.get(name)]
    without = f", without {' and '.join(missing)}" if missing else ""
    used = f"threads used: {found['threads']}"
    # older results have none
    used += f", {found['instruction set']}" if "instruction set" in found else ""
    return f"{found['CPU']}, {found['cores']} cores ({used}); {', '.join(packages)}{without}"


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
