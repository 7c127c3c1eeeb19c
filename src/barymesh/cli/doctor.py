"""``barymesh doctor``: whether this installation works, and what to do where it does not."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barymesh import __version__
from barymesh.cli.exit_codes import BAD_INPUT
from barymesh.extras import EXTRAS
from barymesh.resources import cgroups
from barymesh.resources.cores import ONE_THREAD, VARIABLE, available_cores
from barymesh.resources.memory import GIB, available_bytes

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION = "barymesh"
# below these, work of ordinary size is refused or fails
LITTLE_MEMORY, LITTLE_DISK = GIB, GIB // 4
# how close the trial's barycenter must be certified to be; its tolerance is about a hundredth of that
TRIAL_GAP = 1e-3


class Severity(StrEnum):
    """How serious a finding is."""

    FINE = "fine"
    ABSENT = "not installed"
    CARE = "take care"
    BROKEN = "broken"


COLOURS = {Severity.FINE: "green", Severity.ABSENT: "dim", Severity.CARE: "yellow", Severity.BROKEN: "bold red"}


@dataclass(frozen=True)
class Finding:
    """One line of the report. Whatever is not fine says what to do."""

    part: str
    state: Severity
    found: str
    remedy: str = ""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog=app.info.epilog)(doctor)


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON on standard output, and nothing else.")
    ] = False,
) -> None:
    """Check this installation: versions, compiled kernels, cores, memory, optional parts; and say what to do.

    A small barycenter is computed and its certificate verified. The exit code is 0 if everything that is needed works,
    else 3.

    Examples:

      barymesh doctor

      barymesh doctor --json
    """
    findings = list(examine())
    broken = any(finding.state is Severity.BROKEN for finding in findings)
    if as_json:
        typer.echo(json.dumps({"works": not broken, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print(findings, broken)
    sys.exit(BAD_INPUT if broken else 0)


def examine() -> Iterator[Finding]:
    """All findings, in the order of the report."""
    for check in (_installation, _packages, _kernels, _threads, _blas, _sockets, _clock, _room, _optional):
        yield from _guarded(check)


def _guarded(check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """A check that fails is a finding too."""
    try:
        yield from check()
    except Exception as error:
        name = check.__name__.strip("_")
        yield Finding(
            name,
            Severity.BROKEN,
            f"{type(error).__name__}: {error}",
            "Reinstall: pip install --force-reinstall barymesh",
        )


def _installation() -> Iterator[Finding]:
    yield Finding("platform", Severity.FINE, f"{platform.platform()}, {platform.machine()}")
    place = Path(__file__).parents[1]
    known = _installed()
    if known is None:
        yield Finding(
            "barymesh", Severity.CARE, f"{__version__} in {place}, not installed", "Install it: pip install ."
        )
    elif known.version != __version__:
        yield Finding(
            "barymesh",
            Severity.CARE,
            f"{__version__} in {place}, but {known.version} is installed",
            "Reinstall it, or look at PYTHONPATH: another copy comes first",
        )
    else:
        yield Finding("barymesh", Severity.FINE, f"{__version__} in {place}")
    needed = None if known is None else known.metadata["Requires-Python"]
    yield _compared("Python", platform.python_version(), needed or "", f"{sys.executable}", "Install a newer Python")


def _packages() -> Iterator[Finding]:
    for needed in _requirements():
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            remedy = f"pip install --upgrade '{needed.name}{needed.specifier}'"
            found = _version(needed.name)
            if found is None:
                yield Finding(needed.name, Severity.BROKEN, f"missing; {needed.specifier} is needed", remedy)
            else:
                yield _compared(needed.name, found, str(needed.specifier), "", remedy)


def _kernels() -> Iterator[Finding]:
    """The instruction set of the kernels, and a barycenter whose mean is known."""
    import barymesh as bm
    from barymesh.core import kernels

    yield Finding("compiled kernels", Severity.FINE, f"for {kernels.INSTRUCTION_SET}, {kernels.__file__}")
    began = time.perf_counter()
    result = bm.barycenter(
        [bm.Gaussian(-1, 0.5), bm.Gaussian(1, 0.5)], bm.Support.regular(40, -3, 3), reg=0.1, progress=False
    )
    took = time.perf_counter() - began
    mean = float(result.weights @ result.support.points[:, 0])
    right = result.success and result.gap + 1e-12 >= 0 and result.gap < TRIAL_GAP and abs(mean) < 1e-3
    yield Finding(
        "a barycenter",
        Severity.FINE if right else Severity.BROKEN,
        f"mean {mean:.0e} (it is 0), certified gap {result.gap:.0e}, {took:.1f} s",
        "" if right else "Install again: pip install --force-reinstall --no-deps barymesh",
    )


def _threads() -> Iterator[Finding]:
    from barymesh.core import kernels

    cores, threads, quota = available_cores(), kernels.threads(), cgroups.core_quota()
    settings = [f"{name}={os.environ[name]}" for name in ONE_THREAD if name in os.environ]
    found = f"{cores} cores, {threads} threads" + (f" ({', '.join(settings)})" if settings else "")
    if quota is not None:
        found += f", limit of this container {quota:.3g} cores"
    if threads > cores:
        remedy = f"Set {VARIABLE}={cores}: more threads than cores wait for one another"
        yield Finding("cores", Severity.CARE, found, remedy)
    else:
        yield Finding("cores", Severity.FINE, found)


def _blas() -> Iterator[Finding]:
    import numpy as np

    try:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        yield Finding("BLAS", Severity.FINE, f"{blas['name']} {blas.get('version', '')}".strip())
    except (KeyError, TypeError):
        yield Finding("BLAS", Severity.FINE, "unknown to NumPy; it is used in few places only")


def _sockets() -> Iterator[Finding]:
    try:
        import zmq
    except ImportError:
        # part of the extra "peers", which is looked at with the others
        return
    found = f"libzmq {zmq.zmq_version()}"
    missing = [name for name in ("curve", "ipc") if not zmq.has(name)]
    if missing == ["ipc"] and os.name == "nt":
        yield Finding("sockets", Severity.CARE, f"{found} without ipc", "engine='processes' needs Linux or macOS")
    elif missing:
        remedy = "Take the wheel, which has it: pip install --force-reinstall --only-binary pyzmq pyzmq"
        yield Finding("sockets", Severity.BROKEN, f"{found} without {' and '.join(missing)}", remedy)
    else:
        yield Finding("sockets", Severity.FINE, f"{found}, with encryption (CURVE)")


def _clock() -> Iterator[Finding]:
    now, written = time.time(), Path(__file__).stat().st_mtime
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < written:
        yield Finding(
            "clock",
            Severity.CARE,
            f"{shown}, before barymesh was installed",
            "Set it, or turn on NTP: peers compare clocks",
        )
    else:
        yield Finding("clock", Severity.FINE, shown)


def _room() -> Iterator[Finding]:
    left, limit = available_bytes(), cgroups.memory_limit()
    if left is not None:
        found = f"{left / GIB:.1f} GiB free" + ("" if limit is None else f", limit {limit / GIB:.1f} GiB")
        yield _enough("memory", left, LITTLE_MEMORY, found, "Close other programs, or use smaller supports")
    for name, place in (("disk, here", Path.cwd()), ("disk, temporary files", Path(tempfile.gettempdir()))):
        left = shutil.disk_usage(place).free
        remedy = "Make room, or set TMPDIR to another place" if "temp" in name else "Make room, or use another folder"
        yield _enough(name, left, LITTLE_DISK, f"{left / GIB:.1f} GiB free in {place}", remedy)


def _optional() -> Iterator[Finding]:
    needed = list(_requirements())
    for extra, purpose in EXTRAS.items():
        own = list(_brought_by(extra, needed))
        part, install = f"[{extra}]", f"pip install 'barymesh[{extra}]'"
        if not own:
            remedy = "Reinstall barymesh: its metadata are older than its source"
            yield Finding(part, Severity.CARE, f"{purpose}; unknown to this installation", remedy)
            continue
        versions = {one.name: _version(one.name) for one in own}
        old = [
            one
            for one in own
            if versions[one.name] and not one.specifier.contains(versions[one.name] or "", prereleases=True)
        ]
        installed = ", ".join(f"{name} {found}" for name, found in versions.items() if found)
        missing = [name for name, found in versions.items() if not found]
        if missing:
            yield Finding(part, Severity.ABSENT, f"{purpose}; missing: {', '.join(missing)}", install)
        elif old:
            wanted = ", ".join(f"{one.name}{one.specifier}" for one in old)
            yield Finding(part, Severity.CARE, f"{installed}; {wanted} is needed for {purpose}", install)
        else:
            yield Finding(part, Severity.FINE, f"{purpose}: {installed}")
    if shutil.which("ffmpeg"):
        yield Finding("ffmpeg", Severity.FINE, f"animations in .mp4: {shutil.which('ffmpeg')}")
    else:
        remedy = "Install it with the system's packages; .gif and .html need nothing"
        yield Finding("ffmpeg", Severity.ABSENT, "animations in .mp4", remedy)


def _brought_by(extra: str, needed: Sequence[Requirement]) -> Iterator[Requirement]:
    """What an extra adds to the core, also by way of other extras."""
    for one in needed:
        if one.marker and one.marker.evaluate({"extra": extra}) and not one.marker.evaluate({"extra": ""}):
            if one.name == DISTRIBUTION:
                for other in sorted(one.extras):
                    yield from _brought_by(other, needed)
            else:
                yield one


def _compared(part: str, found: str, needed: str, more: str, remedy: str) -> Finding:
    from packaging.specifiers import SpecifierSet

    found_at = f"{found}{f' in {more}' if more else ''}"
    if SpecifierSet(needed).contains(found, prereleases=True):
        return Finding(part, Severity.FINE, found_at)
    return Finding(part, Severity.BROKEN, f"{found_at}; {needed} is needed", remedy)


def _enough(part: str, left: float, little: float, found: str, remedy: str) -> Finding:
    return Finding(part, Severity.CARE, found, remedy) if left < little else Finding(part, Severity.FINE, found)


def _installed() -> Distribution | None:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def _requirements() -> Iterator[Requirement]:
    """The requirements in the package's metadata."""
    from packaging.requirements import Requirement

    known = _installed()
    yield from (Requirement(text) for text in (known.requires if known else None) or ())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _print(findings: list[Finding], broken: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # in a file or a pipe lines are not broken, so that they can be searched
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table("part", "", "found", "what to do", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(
            Text(finding.part), Text(finding.state, COLOURS[finding.state]), Text(finding.found), Text(finding.remedy)
        )
    console.print(table)
    count: Any = sum(finding.state is Severity.BROKEN for finding in findings)
    console.print(
        f"\n{count} broken: follow the last column, then run this again."
        if broken
        else "\nEverything that is needed works."
    )
