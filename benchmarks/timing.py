"""Timing that survives a noisy machine: contestants take turns, and the best of many turns counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def best_times(
    contestants: Mapping[str, Callable[[], object]], turns: int = 15, least: float = 2e-3
) -> dict[str, float]:
    """Seconds a call, the best over ``turns`` rounds in which every contestant runs once. Short calls are repeated."""
    repeats: dict[str, int] = {}
    for name, call in contestants.items():
        call()
        repeats[name] = max(1, int(least / max(seconds_of(call), 1e-7)))
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(turns):
        for name, call in contestants.items():
            began = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best[name], (time.perf_counter() - began) / repeats[name])
    return best
