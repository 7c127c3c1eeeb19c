"""Results as files: one ``.npz`` with arrays and a header in JSON. The data of the measures stay out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.cost import Cost
from barymesh.errors import FileError
from barymesh.history import History
from barymesh.io.atomic import replacing
from barymesh.io.npz import read_npz
from barymesh.measures.absent import Absent, absent_cost
from barymesh.network.topology import Network
from barymesh.problem import Problem
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.points import Support, grid_values, stored_support

FORMAT = 2
# the fields that are a number each
NUMBERS = (
    "value", "gap", "consensus", "feasibility", "reg", "iterations", "activations", "seconds", "recording_seconds",
    "messages", "bytes",
)  # fmt: skip


def save(result: Result, path: Path, *, private: bool) -> Path:
    """Write the result, replacing an old file only when the new one is complete; ``.npz`` is added to the name if it
    is missing. ``private``: only its owner may read it."""
    target = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    header = {
        "format": FORMAT,
        "status": result.status.name,
        "method": result.method,
        "objective": result.objective,
        "reason": result.support.reason,
        "names": result.support.names,
        "grid": grid_values(result.support),
        "network": result.network and [result.network.size, result.network.name],
        "problem": result.problem and _problem_values(result.problem),
        "measures": result.measures,
    }
    numbers = {name: getattr(result, name) for name in NUMBERS}
    columns = {f"history_{name}": column for name, column in result.history.columns.items()}
    optional = {"snapshots": result.snapshots, "node_errors": result.node_errors, "node_gaps": result.node_gaps}
    extra = {name: array for name, array in optional.items() if array is not None}
    with replacing(target, private=private) as file:
        np.savez_compressed(
            file,
            header=np.array(json.dumps({**header, **numbers})),
            weights=result.weights,
            points=result.support.points,
            node_weights=result.node_weights,
            duals=result.duals,
            **_network_arrays(result.network),  # type: ignore[arg-type]
            **extra,  # type: ignore[arg-type]
            **columns,  # type: ignore[arg-type]
        )
    return target


def load(path: Path) -> Result:
    """What ``save`` wrote."""
    try:
        arrays: dict[str, Any] = read_npz(path)
        header = json.loads(str(arrays.pop("header")))
        version, grid, reason = header.pop("format"), header.pop("grid"), header.pop("reason")
        names = header.pop("names", None)
        if version != FORMAT:
            raise FileError(
                f"{path} has result format {version}; this version of barymesh reads format {FORMAT}. "
                "Read it with the version that wrote it."
            )
        points = arrays.pop("points")
        support = stored_support(grid, points, reason=reason)
        network = header.pop("network", None)
        links = {name: arrays.pop(name) for name in list(arrays) if name.startswith("network_")}
        history = {name: arrays.pop(name) for name in list(arrays) if name.startswith("history_")}
        status = Status[header.pop("status")]
        problem = header.pop("problem", None)
        fields: dict[str, Any] = {**arrays, **header}
        support = support.named(names)
        return Result(
            support=support,
            problem=problem and _stored_problem(problem, support, header["reg"]),
            status=status,
            network=network and _stored_network(network, links),
            history=History({name.removeprefix("history_"): column for name, column in history.items()}),
            **fields,
        )
    except FileNotFoundError as error:
        raise FileError(
            f"There is no file {path}. Name one that Result.save wrote; on the command line, begin without resume."
        ) from error
    except FileError:
        raise
    except Exception as error:  # zipfile, zlib, json and missing or unknown fields share no base
        raise FileError(
            f"{path} is damaged, not a result of barymesh, or may not be opened ({error}). Get it from a copy, or "
            "compute it again."
        ) from error


def _problem_values(problem: Problem) -> dict[str, Any]:
    """What a file keeps of a problem: everything but data."""
    kept = problem.without_data()
    return {
        "weights": kept.weights.tolist(),
        "cost": kept.cost.name if kept.cost.function is None else None,
        "labels": [measure.label for measure in kept.measures],
        "seed": kept.seed,
        "samples": kept.samples,
        "precision": kept.precision,
        "debias": kept.debias,
    }


def _stored_problem(values: dict[str, Any], support: Support, reg: float) -> Problem:
    labels, cost, weights = values.pop("labels"), values.pop("cost"), values.pop("weights")
    return Problem(
        measures=[Absent(label) for label in labels],
        support=support,
        cost=Cost(absent_cost if cost is None else cost),
        reg=reg,
        weights=np.array(weights, dtype=float),
        **values,
    )


def _network_arrays(network: Network | None) -> dict[str, NDArray[Any]]:
    """The arrays of a network, beside its size and name; the positions of its nodes only if they are known already."""
    if network is None:
        return {}
    arrays = {"edges": network.edges, "weights": network.weights, "positions": network.known_positions}
    return {f"network_{name}": array for name, array in arrays.items() if array is not None}


def _stored_network(size_and_name: tuple[int, str], links: dict[str, NDArray[Any]]) -> Network:
    size, name = size_and_name
    parts = {part.removeprefix("network_"): array for part, array in links.items()}
    return Network(size, parts.pop("edges"), name=name, connected=False, **parts)
