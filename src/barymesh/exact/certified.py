"""From potentials to a Result with its certificate, whatever found the potentials."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from barymesh.errors import NumericalError
from barymesh.exact.certificate import Certificate
from barymesh.methods.debiasing import Debiasing
from barymesh.metrics import feasibility_residual
from barymesh.result import Result
from barymesh.status import Status
from barymesh.support.points import Support

Floats = NDArray[np.float64]


def certified_result(
    *, p: Floats, support: Support, node_weights: Floats, duals: Floats, consensus: float, total: Floats, reg: float,
    certificate: Certificate, status: Status, debiasing: Debiasing | None = None, **known: Any,
) -> Result:  # fmt: skip
    """The Result for the barycenter ``p (n,)`` of nodes with own estimates ``node_weights (m, n)`` and potentials
    ``duals (m, n)``, whose weighted sum is ``total (n,)``; ``debiasing``: if the objective is the debiased one;
    ``known``: its other fields. Numbers that are not finite raise an error; only the bounds may be infinite, where they
    could not be certified."""
    finite = all(np.isfinite(array).all() for array in (p, node_weights, duals, total))
    if not finite or np.isnan([certificate.lower, certificate.upper]).any():
        raise NumericalError(
            "The barycenter came out with numbers that are not finite. Check the measures for extreme coordinates or "
            "masses, or use a larger reg."
        )
    return Result(
        weights=p,
        support=support,
        node_weights=node_weights,
        duals=duals,
        value=certificate.upper,
        gap=certificate.gap,
        consensus=consensus,
        feasibility=(
            feasibility_residual(total) if debiasing is None else reg * debiasing.infeasibility(p, total / reg)
        ),
        reg=reg,
        objective="entropic" if debiasing is None else "debiased",
        status=Status.STATIONARY if status is Status.CONVERGED and debiasing and not debiasing.convex else status,
        **known,
    )
