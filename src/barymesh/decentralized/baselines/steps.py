"""Step sizes and batch sizes: what the theory allows, and what is used in practice."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.checks import as_floats, positive_number, whole_number
from barymesh.errors import OptionError

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
# more samples a step than this would never end
MOST_SAMPLES = 2**48


def theoretical_step(smoothness: float, staleness: int, blocks: int) -> float:
    """The largest step that the convergence theorem of ASBCDS allows.

    It is the largest gamma with

        3 L gamma + 12 L gamma ((tau^2 + tau)/m + 2 tau)^2 <= 1

    The theorem assumes tau <= m; for larger tau the formula still gives a number, without a proof that it is small
    enough.

    Parameters
    ----------
    smoothness : float
        L: the gradient of the function changes by at most L times the distance.
    staleness : int
        tau: how many steps old any block may be. 0 means that every step sees the newest values, and gives 1/(3 L).
    blocks : int
        m, the number of blocks.

    Returns
    -------
    float
        The step.

    Examples
    --------
    >>> from barymesh.block_descent import theoretical_step
    >>> round(theoretical_step(smoothness=2.0, staleness=0, blocks=10), 4)
    0.1667
    """
    constant = positive_number("The smoothness L", smoothness)
    tau = whole_number("The staleness", staleness, 0)
    m = whole_number("The number of blocks", blocks, 1)
    return 1.0 / (3.0 * constant * (1.0 + 4.0 * ((tau * tau + tau) / m + 2.0 * tau) ** 2))


def practical_step(reg: float, lambda_max: float) -> float:
    """``reg / lambda_max``, with lambda_max the largest eigenvalue of the network's Laplacian.

    It is 1/L, where ``L = lambda_max / reg`` is the smoothness of the network's dual function: the usual step of plain
    gradient descent. It takes no account of staleness and is far longer than ``theoretical_step``; no theorem covers
    its use with stale information.
    """
    return positive_number("reg", reg) / positive_number("The largest eigenvalue lambda_max", lambda_max)


def growing_batch(theta: ArrayLike, *, epsilon: float, variance: float, smoothness: float, blocks: int) -> Indices:
    """How many samples each step averages to reach accuracy ``epsilon``: for the step that uses theta,

        M = ceil( 8 sigma^2 / (m L epsilon theta) ),     at least 1

    the rule at the end of the proof of the main theorem (step 5, where D_1 = D_2 = gamma L, so gamma drops out): it
    brings the variance of the gradient below ``m L theta epsilon / 8``, and grows like k because theta falls like 2/k.
    ``variance`` is sigma^2: a bound on ``E |g - grad phi|^2`` of the *whole* gradient, all m blocks, from one sample of
    each. For the dual of a barycenter over a network that is the trace of the Laplacian, ``sum_i deg(i)``.

    ``theta`` has any shape (ThetaSequence gives it); the answer has the same.
    """
    values = _checked_theta(theta)
    sigma2, error = positive_number("The variance", variance), positive_number("The accuracy epsilon", epsilon)
    constant, m = positive_number("The smoothness L", smoothness), whole_number("The number of blocks", blocks, 1)
    with np.errstate(over="ignore"):
        wanted: Floats = np.ceil(8.0 * sigma2 / (m * constant * error * values))
    if wanted.max(initial=0.0) > MOST_SAMPLES:
        raise OptionError(
            f"The accuracy epsilon is {error}, which would take {wanted.max():.2g} samples in one step. "
            "Give a larger epsilon."
        )
    return np.maximum(wanted, 1.0).astype(np.intp)


def _checked_theta(theta: ArrayLike) -> Floats:
    values = as_floats(theta, "theta", OptionError)
    bad = ~((values > 0) & (values <= 1))
    if bad.any():
        raise OptionError(f"theta contains {values[bad].flat[0]}; its values lie above 0 and are at most 1.")
    return values
