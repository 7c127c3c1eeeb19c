"""Refuse work that cannot fit in memory, before allocating it."""

from __future__ import annotations

import os
from pathlib import Path

from barymesh.errors import NotEnoughMemoryError
from barymesh.resources import cgroups

GIB = 1024**3
# what is compared with it may be too large for a float
MOST = 1024**8
# what is not worth asking the system for, which takes a third of a millisecond
LITTLE = 64 * 1024**2


def available_bytes() -> int | None:
    """Memory that this process can still get: what the machine has free, or less if its container has a limit. None
    where the operating system does not report it."""
    known = [amount for amount in (_free_on_machine(), cgroups.memory_left()) if amount is not None]
    return min(known, default=None)


def _free_on_machine() -> int | None:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def fits(needed: int) -> bool:
    """Whether this process can get so many bytes, as far as that is known."""
    free = None if needed <= LITTLE else available_bytes()
    return free is None or needed <= free


def require(needed: int, what: str, remedy: str) -> None:
    """Raise NotEnoughMemoryError if ``needed`` bytes are more than this process can get."""
    if fits(needed):
        return
    free = available_bytes()
    if free is not None:
        raise NotEnoughMemoryError(
            f"{what} needs {min(needed, MOST) / GIB:.1f} GiB, but only {free / GIB:.1f} GiB of memory is free. {remedy}"
        )
