"""The numbers of a result as plain Python values."""

from __future__ import annotations

from typing import Any

import numpy as np

from barymesh.result import Result

# the summary has the times at which the total variation to the true barycenter fell to these levels
LEVELS = (0.1, 0.01, 0.001)


def summary(result: Result) -> dict[str, Any]:
    """See ``Result.summary``."""
    return {
        "status": result.status.name,
        "message": result.message,
        "success": result.success,
        "method": result.method,
        "objective": result.objective,
        "measures": result.measures or int(result.node_weights.shape[0]),
        "support": repr(result.support),
        "support_reason": result.support.reason,
        "reg": result.reg,
        "value": result.value,
        "gap": result.gap,
        "tv_bound": result.tv_bound,
        "consensus": result.consensus,
        "feasibility": result.feasibility,
        "iterations": result.iterations,
        "activations": result.activations,
        "seconds": result.seconds,
        "recording_seconds": result.recording_seconds,
        "messages": result.messages,
        "bytes": result.bytes,
        **_network_summary(result),
    }


def _network_summary(result: Result) -> dict[str, Any]:
    if result.network is None:
        return {}
    ends: dict[str, float] = {
        name: float(result.history[name][-1])
        for name in ("time", "tv", "dual_error")
        if name in result.history.columns and len(result.history)
    }
    known = {name: value for name, value in ends.items() if np.isfinite(value)}
    return {"network": repr(result.network), **known, **({"until": _until(result)} if "tv" in known else {})}


def _until(result: Result) -> dict[str, dict[str, float] | None]:
    columns = ("time", "messages", "bytes")
    found: dict[str, dict[str, float] | None] = {}
    for level in LEVELS:
        there = np.flatnonzero(result.history["tv"] <= level)
        row = {name: float(result.history[name][there[0]]) for name in columns} if there.size else None
        found[f"{level:g}"] = row
    return found
