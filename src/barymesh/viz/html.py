"""Results, problems and networks in a notebook: a picture with a table beside it."""

from __future__ import annotations

import base64
import html
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from barymesh.errors import MissingPackageError

if TYPE_CHECKING:
    from barymesh.network.topology import Network
    from barymesh.problem import Problem
    from barymesh.result import Result
    from barymesh.viz.figure import Figure

# what a reader wants first; ``summary`` has all
SHOWN = ("message", "measures", "support", "reg", "value", "gap", "tv_bound", "seconds")
SHOWN_OF_RUN = ("network", "tv", "time", "messages", "bytes")
# networks up to this size are shown with the facts that take long to compute
SMALL = 200


def result_as_html(result: Result) -> str:
    """A self-contained fragment of HTML: the barycenter, its main numbers, and the history of a run on a network."""
    summary = result.summary()
    names: tuple[str, ...] = SHOWN
    drawings: dict[str, Callable[[], Figure]] = {"the barycenter": result.plot}
    if result.network is not None:
        names += SHOWN_OF_RUN
        drawings["its history"] = result.history.plot
    return _beside({name: summary[name] for name in names if name in summary}, drawings)


def problem_as_html(problem: Problem) -> str:
    """The measures by kind, the support and the options. Nothing is computed."""
    kinds = Counter(type(measure).__name__ for measure in problem.measures)
    least, most = problem.weights.min(), problem.weights.max()
    facts = {
        "measures": ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "weights": "equal" if np.isclose(least, most) else f"{least:.4g} to {most:.4g}",
        "support": repr(problem.support),
        "support_reason": problem.support.reason,
        "cost": problem.cost.name,
        "reg": problem.reg,
        "blur": f"{np.sqrt(problem.reg / 2):.3g}, with support points {problem.support.spacing:.3g} apart",
        "seed": problem.seed,
        "precision": problem.precision,
    }
    if not problem.cost.squared:
        # sqrt(reg / 2) is the width of the kernel for squared costs only
        del facts["blur"]
    return _beside({name: value for name, value in facts.items() if value != ""}, {})


def network_as_html(network: Network) -> str:
    """Size, degrees and spectrum, and a picture unless the network is large."""
    hops = np.diff(network.offsets)
    facts: dict[str, object] = {
        "network": network.name,
        "nodes": network.size,
        "edges": len(network.edges),
        "neighbours": f"{hops.min()} to {hops.max()}, {hops.mean():.3g} on average",
    }
    if network.weights is not None:
        facts["edge weights"] = f"{network.weights.min():.4g} to {network.weights.max():.4g}"
    if network.size > SMALL:
        return _beside(facts, {})
    facts |= {"diameter": network.diameter, "spectral gap": network.spectral_gap, "lambda_max": network.lambda_max}
    return _beside(facts, {"the network": network.plot})


def _beside(facts: Mapping[str, object], drawings: Mapping[str, Callable[[], Figure]]) -> str:
    """The first figure, beside it the facts as a table, then the other figures: in a narrow place below one another.
    Without figures, where what draws them is not installed."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{name.replace('_', ' ')}</th>"
        f"<td style='text-align:left;max-width:24em;white-space:normal'>{html.escape(_shown(value))}</td></tr>"
        for name, value in facts.items()
    )
    try:
        pictures = [
            f"<img alt='{name}' style='max-width:100%' src='data:image/png;base64,{_encoded(draw())}'>"
            for name, draw in drawings.items()
        ]
    except MissingPackageError:
        pictures = []
    parts = [*pictures[:1], f"<table>{rows}</table>", *pictures[1:]]
    return f"<div style='display:flex;gap:1em;align-items:center;flex-wrap:wrap'>{''.join(parts)}</div>"


def _encoded(figure: Figure) -> str:
    return base64.b64encode(figure._repr_png_()).decode()


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
