"""``barymesh node --check``: could the node run now? It looks at everything a run needs, and starts and changes
nothing."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
import warnings
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from barymesh.errors import AccuracyWarning, BarymeshError, MeasureError, NetworkError
from barymesh.io.files import read_measure
from barymesh.method_names import WITHOUT_STEP
from barymesh.methods.entropic import require_reach
from barymesh.peers import audit
from barymesh.peers.kit import Kit
from barymesh.peers.network_file import NetworkFile
from barymesh.peers.node import (
    STATE,
    PrivacyLevel,
    local_problem,
    neighbours,
    open_runtime,
    own_address,
    own_problem,
    released,
    use_of,
)
from barymesh.peers.status import StatusServer
from barymesh.privacy.ledger import LEDGER, check_budget, cost, read
from barymesh.problem import Problem
from barymesh.transport.sockets import Links
from barymesh.transport.subscriber import LinkState, Neighbour
from barymesh.transport.wire import MessageFormat

# a support that misses more of a measure's mass than this is not one for these data
_MOST_OUTSIDE = 0.5
# seconds for a neighbour to complete the handshake
_REACH_TIMEOUT = 3.0
# bytes that must be free on the disk of the folder: far more than a state and a result take
_LEAST_FREE = 64 * 2**20


class Verdict(StrEnum):
    """The outcome of a check. The values are shown to users. ``LATER``: nothing is wrong here, and it may pass."""

    OK = "ok"
    LATER = "not yet"
    WRONG = "NOT OK"


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check, and a text with the finding or the remedy."""

    what: str
    verdict: Verdict
    text: str


async def check(
    folder: Path, data: Path, privacy: PrivacyLevel | None = None, *,
    budget: float | None = None, state: Path, **reading: Any,
) -> list[CheckResult]:  # fmt: skip
    """Whether the node of the kit in the folder could run now with these data, and its ``state`` in that folder."""
    try:
        kit = Kit.open(folder)
    except BarymeshError as error:
        return [CheckResult("kit", Verdict.WRONG, str(error))]
    network = kit.network
    found = [
        CheckResult("kit", Verdict.OK, f"{kit.name} of {network.run}, network {network.fingerprint}"),
        CheckResult("key", Verdict.OK, f"{kit.keys.fingerprint}, private, and the one in the network file"),
    ]
    try:
        measure = read_measure(data, **reading)
        problem, fit = _fit(kit, measure, released=privacy is not None)
        use = use_of(kit, problem)
        if privacy is not None:
            # made for the check only, and not released
            histogram, use = released(kit, measure, privacy)
            problem = local_problem(kit, histogram)
        found += [fit, await _state(kit, problem, state), _ledger(state, use, budget)]
    except BarymeshError as error:
        found.append(CheckResult("data", Verdict.WRONG, str(error)))
    found += [_disk(state), _audit(state), _clock(network), await _can_listen(kit)]
    if (port := kit.entry.status_port) is not None:
        try:
            async with StatusServer(dict, port):
                found.append(CheckResult("status", Verdict.OK, f"can be served at port {port}"))
        except NetworkError as error:
            found.append(CheckResult("status", Verdict.WRONG, str(error)))
    found += await asyncio.gather(*(_handshake(kit, one) for one in neighbours(kit)))
    return found


def _fit(kit: Kit, measure: Any, *, released: bool) -> tuple[Problem, CheckResult]:
    """The problem with the measure, and whether it lies where the support of the network is. If only a private release
    of it is used, that is on the support."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AccuracyWarning)
        problem = own_problem(kit, measure)
    sentences = [str(one.message) for one in caught if issubclass(one.category, AccuracyWarning)]
    size, outside = problem.atoms[0].weights.size, problem.share_outside()
    fits = outside <= _MOST_OUTSIDE
    try:
        if not released:
            require_reach(problem)
    except MeasureError as error:
        fits = False
        sentences.append(str(error))
    text = f"{size} points, {'fit' if fits else 'do not fit'} {problem.support!r}; {outside:.1%} lie outside of it."
    return problem, CheckResult("data", Verdict.OK if fits else Verdict.WRONG, " ".join([text, *sentences]))


async def _state(kit: Kit, problem: Problem, folder: Path) -> CheckResult:
    """Whether there is a state, and whether it can be continued with these data."""
    path = folder / STATE
    try:
        runtime = await open_runtime(kit, problem, path if path.exists() else None)
        runtime.close()
    except BarymeshError as error:
        return CheckResult("state", Verdict.WRONG, str(error))
    if runtime.store is None:
        return CheckResult("state", Verdict.OK, f"there is none in {folder}: the node begins anew")
    if runtime.replaces_memory:
        return CheckResult("state", Verdict.OK, f"{path} is of another network file: the node begins anew")
    return CheckResult("state", Verdict.OK, f"{path}, after {runtime.host.activations} activations")


def _ledger(folder: Path, use: Any, budget: float | None) -> CheckResult:
    path = folder / LEDGER
    try:
        entries = read(path)
        spent = cost(entries, use)
        check_budget(path, entries, spent, budget)
    except BarymeshError as error:
        return CheckResult("ledger", Verdict.WRONG, str(error))
    within = "no budget" if budget is None else f"the budget is {budget:g}"
    epsilon = "no privacy" if spent.epsilon == math.inf else f"epsilon {spent.epsilon:.4g} in all"
    text = f"{len(entries)} uses of data so far; with this one {epsilon}, {within}"
    return CheckResult("ledger", Verdict.OK, text)


def _audit(folder: Path) -> CheckResult:
    path = folder / audit.AUDIT
    try:
        trail = audit.read(path)
    except BarymeshError as error:
        return CheckResult("audit", Verdict.WRONG, str(error))
    if trail.problem:
        return CheckResult("audit", Verdict.WRONG, f"{path}: {trail.problem}. Find out who changed it.")
    text = f"{len(trail.entries)} entries, unbroken" if trail.entries else f"there is none in {folder} yet"
    return CheckResult("audit", Verdict.OK, text)


def _disk(folder: Path) -> CheckResult:
    """Whether the folder, or where it is to be made, can be written and has room."""
    above = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return CheckResult(
            "disk", Verdict.WRONG, f"{above} is no folder, or cannot be written. Choose another --folder."
        )
    free = shutil.disk_usage(above).free
    text = f"{free / 2**20:,.0f} MB are free at {above}"
    if free < _LEAST_FREE:
        return CheckResult("disk", Verdict.WRONG, f"{text}, and {_LEAST_FREE / 2**20:.0f} MB are needed. Make room.")
    return CheckResult("disk", Verdict.OK, text)


def _clock(network: NetworkFile) -> CheckResult:
    now, began = datetime.now(UTC).replace(microsecond=0), network.began
    if now < began:
        text = f"It is {now.isoformat()} here, and the run begins at {began.isoformat()}. Set the clock, or wait."
        if network.method in WITHOUT_STEP:
            return CheckResult("clock", Verdict.LATER, f"{text} {network.method} works with any clock.")
        return CheckResult("clock", Verdict.WRONG, text)
    return CheckResult("clock", Verdict.OK, f"{now.isoformat()}, after the run began")


async def _can_listen(kit: Kit) -> CheckResult:
    """Whether the node can listen at its address."""
    try:
        listen = kit.listen or await own_address(kit)
        if listen.startswith("ipc://"):
            # binding it would take it from a program that listens there
            return CheckResult("endpoint", Verdict.OK, f"{listen} is on this machine")
        # with no key admitted, and closed at once
        async with Links([kit.number], listen, [], _NO_MESSAGES, curve=kit.keys):
            pass
    except BarymeshError as error:
        return CheckResult("endpoint", Verdict.WRONG, str(error))
    return CheckResult("endpoint", Verdict.OK, f"can listen at {listen}")


async def _handshake(kit: Kit, neighbour: Neighbour) -> CheckResult:
    """Whether the neighbour is up, has the key of the network file, and admits ours: found by connecting to it."""
    what, where = f"neighbour {neighbour.name}", neighbour.endpoint
    deadline = time.monotonic() + _REACH_TIMEOUT
    # what arrives is of no interest
    expected = replace(_NO_MESSAGES, run=kit.network.fingerprint)
    # it listens nowhere that anybody knows
    async with Links([kit.number], "tcp://127.0.0.1:0", [neighbour], expected, curve=kit.keys) as links:
        while True:
            link = links.status()[neighbour.name]
            if link.state is LinkState.CONNECTED and link.network is not None:
                return CheckResult(what, Verdict.OK, f"is up at {where}; both have the right keys")
            if link.state is LinkState.OTHER_NETWORK:
                return CheckResult(
                    what, Verdict.LATER, f"{link.state} at {where}: {link.note}. One of you has an old one."
                )
            if link.state in (LinkState.REFUSED, LinkState.WRONG_KEY, LinkState.OTHER_VERSION):
                remedy = "Compare the fingerprints of your network files."
                return CheckResult(what, Verdict.WRONG, f"{link.state} at {where}: {link.note}. {remedy}")
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
    why = link.note or "no answer"
    text = (
        f"is not up yet at {where}: {why}. You can start before it; if it is up, check its address and the firewalls."
    )
    return CheckResult(what, Verdict.LATER, text)


_NO_MESSAGES = MessageFormat("check", np.zeros(1), np.ones(1))
