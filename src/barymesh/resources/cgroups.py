"""The limits that Linux puts on a container, or on any other control group (cgroups, version 2 or 1).

A limit holds for a group and all groups within it, so that of a process is the smallest on the way from its own group
to the root. Inside a container the root that is visible is usually the container's own group.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
# version 1 writes "no limit" as a number larger than any memory
UNLIMITED = 2**60


def core_quota() -> float | None:
    """Cores that the limit on CPU time amounts to, such as 0.5; None without a limit."""
    quotas = []
    for folder in _groups("cpu"):
        most, _, period = _text(folder / "cpu.max").partition(" ")
        if not period:
            most, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        # without a limit: "max" in version 2, -1 in version 1
        if (quota := _number(most)) is not None and quota > 0 and (length := _number(period)):
            quotas.append(quota / length)
    return min(quotas, default=None)


def memory_limit() -> int | None:
    """The most bytes of memory that the process may use, together with the rest of its group; None without a limit."""
    return min((limit for _, limit in _memory_limits()), default=None)


def memory_left() -> int | None:
    """Bytes of memory left below the limit; None without one. The file cache that can be dropped counts as free."""
    left = []
    for folder, limit in _memory_limits():
        used = _number(_text(folder / "memory.current")) or _number(_text(folder / "memory.usage_in_bytes")) or 0
        fields = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
        cache = _number(fields.get("total_inactive_file", fields.get("inactive_file", "0"))) or 0
        left.append(max(0, limit - max(0, used - cache)))
    return min(left, default=None)


def _memory_limits() -> Iterator[tuple[Path, int]]:
    for folder in _groups("memory"):
        limit = _number(_text(folder / "memory.max")) or _number(_text(folder / "memory.limit_in_bytes"))
        if limit is not None and limit < UNLIMITED:
            yield folder, limit


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the process's own group and of all that contain it, the root last: of both versions."""
    paths = {}
    for line in _text(OWN).splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            paths[name] = path
    for root, path in ((ROOT, paths.get("", "/")), (ROOT / controller, paths.get(controller, "/"))):
        own = root / path.lstrip("/")
        while own != root and ".." not in own.parts:
            yield own
            own = own.parent
        yield root


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
