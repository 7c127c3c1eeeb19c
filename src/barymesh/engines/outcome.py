"""From what the nodes of a network know at the end to a Result, whichever engine ran them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.decentralized.algorithm import Algorithm
from barymesh.decentralized.host import Traffic, View
from barymesh.engines.recorder import Recorder
from barymesh.errors import DriftWarning, warn
from barymesh.exact.certificate import Certificate
from barymesh.exact.certified import certified_result
from barymesh.methods.debiasing import debiasing_of
from barymesh.metrics import consensus_error
from barymesh.problem import Problem
from barymesh.result import Result
from barymesh.status import Status


def network_result(
    algorithm: Algorithm[Any], recorder: Recorder, view: View, members: NDArray[np.bool_], known: Problem,
    certificate: Certificate, *, status: Status, activations: int, traffic: Traffic, seconds: float,
) -> Result:  # fmt: skip
    """The Result of the nodes that are ``members (m,)`` at the end; ``view``: what these know, ``known``:
    their problem."""
    network = recorder.network
    weights = recorder.weights(members)[members]
    p = view.barycenter(known, weights)
    result = certified_result(
        p=p,
        support=known.support,
        node_weights=view.estimates,
        duals=view.duals,
        consensus=consensus_error(view.estimates, p, weights),
        total=weights @ view.duals,
        reg=known.reg,
        certificate=certificate,
        debiasing=debiasing_of(known),
        method=algorithm.name,
        # points that move can be shown to be stationary only
        status=Status.STATIONARY if status is Status.CONVERGED and view.points is not None else status,
        activations=activations,
        seconds=seconds,
        history=recorder.history,
        messages=traffic.messages,
        bytes=traffic.bytes,
        recording_seconds=recorder.seconds,
        network=network.among(members),
        problem=known.with_weights(weights).without_oracles(),
        snapshots=recorder.kept_snapshots,
        node_errors=None if np.isnan(view.errors).any() else view.errors,
        node_gaps=None if np.isnan(view.gaps).all() else view.gaps,
    )
    if not algorithm.conserves:
        warn_of_drift(algorithm.name, result.feasibility)
    return result


def warn_of_drift(method: str, feasibility: float) -> None:
    """For methods that do not conserve the sum of the duals."""
    warn(
        f"{method} does not keep the sum of the duals: its nodes drift to a measure that is not the barycenter. The "
        f"feasibility residual is now {feasibility:.3g}, and only 0 is right. See docs/explanation/errata.md.",
        DriftWarning,
    )
