"""An estimator whose rows are histograms: their barycenter, and how far each is from it."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh import readers as read
from barymesh.checks import whole_number
from barymesh.cost import SQUARED, Cost, CostLike
from barymesh.errors import MeasureError, RegularisationError, SupportError, WeightError
from barymesh.exact.rows import Rows
from barymesh.exact.run import solve_nodes
from barymesh.exact.transport import transport_costs
from barymesh.extras import needs
from barymesh.measures import Atoms, Histogram
from barymesh.oracle import Oracle
from barymesh.oracle.atoms import AtomOracle
from barymesh.oracle.bounds import ProductCosts
from barymesh.oracle.groups import GroupedOracle
from barymesh.problem import Problem
from barymesh.result import Result
from barymesh.support.grid import Grid
from barymesh.support.points import Support

with needs("sklearn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import Tags
    from sklearn.utils.validation import (
        _check_sample_weight,
        check_is_fitted,
        check_non_negative,
        validate_data,
    )

Floats = NDArray[np.float64]


class WassersteinBarycenter(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The entropic Wasserstein barycenter of histograms on common points: rows of ``X`` are histograms.

    ``fit`` finds the ``p`` that minimises ``sum_i s_i W_reg(p, X_i)``, with the sample weights ``s_i``, every row
    divided by its sum, and

        W_reg(p, mu) = min over plans P from p to mu of  sum_lj P_lj (c_lj + reg log(P_lj / mu_j))

    ``transform`` gives ``W_reg(p, X_i)`` of every row, ``score`` minus its mean.

    Parameters
    ----------
    reg : float, default=0.005
        Entropic regularisation, as in ``barymesh.barycenter``: in units of the cost. Smaller is sharper and slower.
    relative_reg : bool, default=False
        Whether ``reg`` is a multiple of the median cost, as in ``barymesh.barycenter``; for ``partial_fit`` that of the
        first rows.
    support : None, tuple of int, array or Support, default=None
        Where the columns of ``X`` are. None: evenly spaced on [0, 1]. A tuple: the pixels of an image or volume of
        this shape, in C order, the longest side spanning [0, 1]. An array: points ``(n_features, d)``.
    cost : str, function or matrix, default="sqeuclidean"
        As in ``barymesh.barycenter``; a matrix has a row and a column for each feature, and the support then does not
        matter.
    tol, max_iter : float and int, default=1e-6 and 5000
        Stop once the rows' own estimates agree with the barycenter to ``tol`` (mean L1 distance), or after ``max_iter``
        iterations, with a ``ConvergenceWarning``.
    half_life : float or None, default=None
        In ``partial_fit``, what was seen before counts half after this much sample weight has come since (so many rows,
        if they are not weighted). None: everything counts the same for ever.
    score_reg : float or None, default=None
        The regularisation with which ``transform`` and ``score`` measure, relative if ``relative_reg``; None for
        ``reg``. Scores at different ``reg`` do not compare, because ``W_reg`` itself falls as ``reg`` grows: a search
        over ``reg`` needs one small ``score_reg`` for all candidates.

    Attributes
    ----------
    barycenter_ : array (n_features,)
        The barycenter; positive, with sum 1.
    support_ : Support
        The points of the columns.
    reg_ : float
        The regularisation in units of the cost.
    result_ : Result
        Of the last ``fit`` or ``partial_fit``, with its certified gap. After a further ``partial_fit`` its first node
        stands for what was seen before.
    n_iter_ : int
        Iterations of the last ``fit`` or ``partial_fit``.
    n_samples_seen_ : int
        Rows seen since the last ``fit``; those with sample weight 0 do not count.
    weight_seen_ : float
        What they weigh together by now, see ``half_life``.
    n_features_in_, feature_names_in_
        As in all estimators of scikit-learn.

    Notes
    -----
    *Data arriving over time.* The barycenter of everything seen cannot be had without keeping everything. What
    ``partial_fit`` keeps is the barycenter ``q`` and the weight S of the rows it stands for. Whatever
    the rows were, their objective is at least a constant plus ``S reg KL(p | q)`` (after ``fit`` the constant is its
    least value), and that is what counts in their place: with the new rows the next barycenter minimises

        S reg KL(p | q) + sum_i s_i W_reg(p, X_i)

    which is solved to ``tol`` and certified. Hence: the first call is ``fit``; rows whose barycenter is ``q`` already
    change nothing; nothing is blurred from call to call; and on a stream of rows drawn from one distribution it
    approaches the barycenter of that distribution (it is an implicit stochastic mirror descent with steps 1/S). It is
    not the barycenter of everything seen, and depends on the order and on how rows are batched. Treating ``q`` as one
    more histogram would be simpler, but blurs it by ``reg`` at every call.

    Examples
    --------
    >>> import numpy as np
    >>> from barymesh.sklearn import WassersteinBarycenter
    >>> X = np.array([[8.0, 2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0, 8.0]])
    >>> WassersteinBarycenter().fit(X).barycenter_.round(2)
    array([0.  , 0.16, 0.68, 0.16, 0.  ])
    """

    _n_features_out = 1
    weight_seen_: float
    n_samples_seen_: int

    def __init__(
        self,
        reg: float = 0.005,
        *,
        relative_reg: bool = False,
        support: Any = None,
        cost: CostLike = SQUARED,
        tol: float = 1e-6,
        max_iter: int = 5000,
        half_life: float | None = None,
        score_reg: float | None = None,
    ) -> None:
        self.reg = reg
        self.relative_reg = relative_reg
        self.support = support
        self.cost = cost
        self.tol = tol
        self.max_iter = max_iter
        self.half_life = half_life
        self.score_reg = score_reg

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803
        """The barycenter of the rows of ``X``, forgetting what was fitted before.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Histograms: not negative, with some mass in every row.
        y
            Ignored.
        sample_weight : array (n_samples,), optional
            How much each row counts; 0 leaves it out.

        Returns
        -------
        WassersteinBarycenter
            Itself.
        """
        return self._learn(X, sample_weight, anew=True)

    def partial_fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803
        """Continue with further rows; the notes of the class define what this computes.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Histograms, as for ``fit``.
        y
            Ignored.
        sample_weight : array (n_samples,), optional
            How much each row counts.

        Returns
        -------
        WassersteinBarycenter
            Itself.
        """
        return self._learn(X, sample_weight, anew=not hasattr(self, "barycenter_"))

    def transform(self, X: ArrayLike) -> Floats:  # noqa: N803
        """``W_reg(barycenter, X_i)`` of every row: how far it is from the barycenter.

        It may be negative: the entropy is counted on the points of the support, not against the barycenter.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Histograms, as for ``fit``.

        Returns
        -------
        array (n_samples, 1)
            The costs.
        """
        check_is_fitted(self)
        rows = self._checked_rows(X, reset=False)
        reg = self.reg_ if self.score_reg is None else self._absolute(self.score_reg, "score_reg")
        costs, error = transport_costs(
            self._problem(rows, reg).oracle, self.barycenter_, max_iter=self.max_iter, tol=float(self.tol)
        )
        if error > self.tol:
            self._warn(f"The transport of a row to the barycenter is known to {error:.1g} only")
        return costs[:, None]

    def score(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> float:  # noqa: N803
        """Minus the (weighted) mean of ``transform(X)``: higher is better. See ``score_reg`` before comparing.

        Parameters
        ----------
        X : array (n_samples, n_features)
            Histograms, as for ``fit``.
        y
            Ignored.
        sample_weight : array (n_samples,), optional
            How much each row counts.

        Returns
        -------
        float
            The score.
        """
        costs = self.transform(X)[:, 0]
        return -float(np.average(costs, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _learn(self, given: ArrayLike, sample_weight: ArrayLike | None, *, anew: bool) -> Self:
        rows = self._checked_rows(given, reset=anew)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        counting = weights > 0
        if not counting.any():
            raise WeightError(f"All {weights.size} sample weights are 0, so no row counts. Give some a positive one.")
        # equal rows are one measure: the same barycenter, and less work
        rows, member = np.unique(rows[counting], axis=0, return_inverse=True)
        fresh = np.bincount(member.ravel(), weights[counting])
        max_iter, tol = read.count("max_iter", self.max_iter), read.not_negative("tol", self.tol)
        if anew:
            self.support_ = self._placed(rows.shape[1])
            self._unit = self._problem(rows, 1.0).median_cost() if self.relative_reg else 1.0
            self.reg_ = self._absolute(self.reg, "reg")
        past = 0.0
        if not anew:
            fading = 0.0 if self.half_life is None else 1.0 / read.positive("half_life", self.half_life)
            past = self.weight_seen_ * 0.5 ** (fading * float(fresh.sum()))
        problem = self._problem(rows, self.reg_)
        oracle, masses, costs = problem.oracle, fresh, problem.product_costs
        if past > 0:
            oracle, kept = self._with_past(oracle)
            masses, costs = np.concatenate([[past], fresh]), ProductCosts(max(costs.largest, kept), oracle.size)
        nodes = Rows(oracle, masses / masses.sum(), costs=costs)
        self.result_: Result = solve_nodes(nodes, self.support_, max_iter=max_iter, tol=tol)
        self.barycenter_ = self.result_.weights
        self.n_iter_ = self.result_.iterations
        self.weight_seen_ = past + float(fresh.sum())
        self.n_samples_seen_ = int(counting.sum()) + (0 if anew else self.n_samples_seen_)
        if not self.result_.success:
            self._warn(f"The rows agree with the barycenter to {self.result_.history['consensus'][-1]:.1g} only")
        return self

    def _checked_rows(self, given: ArrayLike, *, reset: bool) -> Floats:
        """The rows, each with sum 1."""
        rows = validate_data(self, given, reset=reset, dtype=np.float64, ensure_min_features=2 if reset else 1)
        check_non_negative(rows, type(self).__name__)
        most = rows.max(axis=1, keepdims=True)
        empty = np.flatnonzero(most == 0)
        if empty.size:
            raise MeasureError(
                f"Row {empty[0]} of X has no mass: every entry is 0 ({empty.size} such rows in all). Leave it out."
            )
        scaled = rows / most
        return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))

    def _placed(self, features: int) -> Support:
        """The points of the columns."""
        if self.support is None:
            return Support.regular(features)
        if isinstance(self.support, tuple):
            sides = tuple(whole_number("A side of the support", side, 1, SupportError) for side in self.support)
            found = Support.of_grid(Grid.of_image(sides))
        else:
            found = self.support if isinstance(self.support, Support) else Support(self.support)
        if found.size != features:
            raise SupportError(
                f"The support has {found.size} points, but X has {features} features; give a point for each column."
            )
        return found

    def _absolute(self, reg: Any, name: str) -> float:
        """A regularisation in units of the cost."""
        try:
            number = read.regularisation("reg", reg)
        except RegularisationError as error:
            raise RegularisationError(f"{name}={reg!r}: {error}") from error
        if not self._unit > 0:
            raise RegularisationError(
                f"{name}={reg!r}: The median cost is 0, so reg cannot be relative to it. Set relative_reg=False."
            )
        return number * self._unit

    def _problem(self, rows: Floats, reg: float) -> Problem:
        histograms = [Histogram(row) for row in rows]
        return Problem.create(histograms, self.support_, reg=reg, cost=self.cost)

    def _with_past(self, rows: Oracle) -> tuple[Oracle, float]:
        """A first node with ``W(p) = reg KL(p | barycenter_)`` before those of the oracle, and its largest cost.

        It is a single atom to which point l has the cost ``-reg log barycenter_l``.
        """
        cost = -self.reg_ * np.log(np.maximum(self.barycenter_, np.finfo(float).tiny))[:, None]
        atom = Atoms(np.zeros((1, 1)), np.zeros(1, dtype=np.intp), np.ones(1))
        past = AtomOracle([atom], self.support_, Cost(np.maximum(cost, 0.0)), self.reg_)
        members = [np.zeros(1, dtype=np.intp), np.arange(1, rows.count + 1)]
        return GroupedOracle([past, rows], members), float(cost.max())

    def _warn(self, what: str) -> None:
        warnings.warn(
            f"{what}, not to tol={self.tol:g}, after max_iter={self.max_iter} iterations. Raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
