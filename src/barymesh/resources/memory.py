"""Refuse work that cannot fit in memory, before allocating it."""

from __future__ import annotations

import os
from pathlib import Path

from barymesh.errors import NotEnoughMemoryError

GIB = 1024**3


def available_bytes() -> int | None:
    """Memory the operating system would still hand out, or None where it does not tell."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def require(needed: int, what: str, remedy: str) -> None:
    """Raise NotEnoughMemoryError if ``needed`` bytes are more than the machine has free."""
    free = available_bytes()
    if free is not None and needed > free:
        raise NotEnoughMemoryError(
            f"{what} needs {needed / GIB:.1f} GiB, but only {free / GIB:.1f} GiB of memory is free. {remedy}"
        )
