"""An estimator whose rows are samples of several groups: it moves them to the barycenter of the groups."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh.api import barycenter
from barymesh.cost import SQUARED, CostLike
from barymesh.errors import MeasureError, OptionError
from barymesh.extras import needs
from barymesh.measures.empirical import by_group
from barymesh.result import Result

with needs("sklearn"):
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import _safe_indexing
    from sklearn.utils.validation import _check_feature_names_in, check_array, check_is_fitted, validate_data

Floats = NDArray[np.float64]
# the label of all samples where there are no groups
ONE_GROUP = "all"


class BarycenterTransport(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Moves samples of several groups to the Wasserstein barycenter of the groups: rows of ``X`` are samples.

    After that the groups have one distribution, and every sample has moved as little as possible: domain adaptation,
    where the groups are sites or batches, and fair repair, where they are groups of people. New samples of a known
    group are moved in the same way (``barymesh.Result.map``).

    Parameters
    ----------
    reg : float, default=0.05
        Entropic regularisation, as in ``barymesh.barycenter``: in units of the cost, which is a squared distance by
        default.
    by : str or int, optional
        The column of ``X`` that says to which group a sample belongs: a name of a data frame's, or a number counted
        from 0. It is left out of what ``transform`` returns. By default groups are given to ``fit`` and ``transform``.
    relative_reg : bool, default=False
        Whether ``reg`` is a multiple of the median cost, as in ``barymesh.barycenter``.
    weights : "size", dict or None, default=None
        How much each group counts: equally, by its number of samples, or by group.
    support : array (n, d), Support, str or None, default=None
        Where the barycenter lives, as in ``barymesh.barycenter``.
    cost : str or function, default="sqeuclidean"
        As in ``barymesh.barycenter``.
    tol, max_iter : float and int, default=1e-6 and 5000
        As in ``barymesh.barycenter``. Where ``tol`` is not reached, there is a ``ConvergenceWarning``.

    Attributes
    ----------
    result_ : Result
        The barycenter, with its certified gap; its measures are labelled by group.
    groups_ : tuple of str
        The groups.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_, feature_names_in_
        As in all estimators of scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from barymesh.sklearn import BarycenterTransport
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat([0, 1], 200)
    >>> X = np.column_stack([site, rng.normal(4.0 * site, 1.0)])
    >>> moved = BarycenterTransport(reg=0.1, by=0).fit_transform(X)
    >>> abs(float(moved[site == 0].mean() - moved[site == 1].mean())) < 0.01
    True
    """

    def __init__(
        self,
        reg: float = 0.05,
        *,
        by: str | int | None = None,
        relative_reg: bool = False,
        weights: str | Mapping[Any, float] | None = None,
        support: Any = None,
        cost: CostLike = SQUARED,
        tol: float = 1e-6,
        max_iter: int = 5000,
    ) -> None:
        self.reg = reg
        self.by = by
        self.relative_reg = relative_reg
        self.weights = weights
        self.support = support
        self.cost = cost
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: ArrayLike, y: Any = None, groups: ArrayLike | None = None) -> Self:  # noqa: N803
        """Find the barycenter of the groups.

        Parameters
        ----------
        X : array or data frame (n_samples, n_features)
            Samples, with the column ``by`` if that is set.
        y
            Ignored.
        groups : array (n_samples,), optional
            The group of each sample, if ``by`` is not set. By default there is one group.

        Returns
        -------
        BarycenterTransport
            Itself.
        """
        rows, labels = self._split(X, groups, reset=True)
        measures = by_group(rows, None, labels, None)
        weights: Any = self.weights
        if isinstance(weights, Mapping):
            by_label = {str(group): weight for group, weight in weights.items()}
            if set(by_label) != {measure.label for measure in measures}:
                raise OptionError(
                    f"weights has the groups {', '.join(by_label)}; the samples have "
                    f"{', '.join(str(measure.label) for measure in measures)}. Give a weight for each group."
                )
            weights = [by_label[str(measure.label)] for measure in measures]
        self.result_: Result = barycenter(
            measures, self.support, reg=self.reg, relative_reg=self.relative_reg, weights=weights, cost=self.cost,
            tol=self.tol, max_iter=self.max_iter, progress=False,
        )  # fmt: skip
        self.groups_ = tuple(str(measure.label) for measure in measures)
        self.n_iter_ = self.result_.iterations
        if not self.result_.success:
            warnings.warn(
                f"The groups agree on the barycenter to {self.result_.consensus:.1g} only, not to tol={self.tol:g}, "
                f"after max_iter={self.max_iter} iterations. Raise max_iter, tol or reg.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: ArrayLike, groups: ArrayLike | None = None) -> Floats:  # noqa: N803
        """Move samples to the barycenter.

        Parameters
        ----------
        X : array or data frame (n_samples, n_features)
            Samples of groups that ``fit`` has seen.
        groups : array (n_samples,), optional
            The group of each sample, if ``by`` is not set.

        Returns
        -------
        array (n_samples, d)
            Where they go; without the column ``by``.
        """
        check_is_fitted(self)
        rows, labels = self._split(X, groups, reset=False)
        unknown = sorted(set(labels) - set(self.groups_))
        if unknown:
            raise MeasureError(
                f"The samples have the group {str(unknown[0])!r}, which fit has not seen. It has seen "
                f"{', '.join(self.groups_)}."
            )
        result = self.result_
        if callable(self.cost):
            # a fitted estimator from a pickle has it among its parameters only
            result = result.with_measures([None] * len(self.groups_), cost=self.cost)
        moved = np.empty_like(rows)
        for group in self.groups_:
            own = labels == group
            moved[own] = result.map(group)(rows[own])
        return moved

    def fit_transform(self, X: ArrayLike, y: Any = None, groups: ArrayLike | None = None) -> Floats:  # noqa: N803
        """``fit`` and ``transform`` of the same samples.

        Parameters
        ----------
        X, y, groups
            As for ``fit``.

        Returns
        -------
        array (n_samples, d)
            As from ``transform``.
        """
        return self.fit(X, y, groups).transform(X, groups)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The names of the columns that ``transform`` returns.

        Parameters
        ----------
        input_features : list of str, optional
            The names of the columns of ``X``, if it had none.

        Returns
        -------
        array of str
            The same without ``by``.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.delete(names, [] if self.by is None else [self._place(list(names))])

    def _split(self, given: Any, groups: Any, *, reset: bool) -> tuple[Floats, NDArray[np.str_]]:
        """The coordinates ``(N, d)`` and the groups ``(N,)`` of samples."""
        if self.by is None:
            rows = validate_data(self, given, reset=reset, dtype=np.float64)
            labels = np.full(len(rows), ONE_GROUP) if groups is None else np.asarray(groups).astype(str)
            if labels.shape != (len(rows),):
                raise OptionError(f"There are {len(rows)} samples and groups of shape {labels.shape}; give one each.")
            return rows, labels
        if groups is not None:
            raise OptionError(f"groups were given, and by={self.by!r} is set as well. Give one of them.")
        table = given if hasattr(given, "shape") else np.asarray(given, dtype=object)
        validate_data(self, table, reset=reset, skip_check_array=True)
        place = self._place(list(getattr(table, "columns", range(table.shape[1]))))
        labels = np.asarray(_safe_indexing(table, place, axis=1)).astype(str)
        others = [k for k in range(table.shape[1]) if k != place]
        return check_array(_safe_indexing(table, others, axis=1), dtype=np.float64, estimator=self), labels

    def _place(self, names: list[Any]) -> int:
        if isinstance(self.by, str) and self.by in names:
            return names.index(self.by)
        if isinstance(self.by, int) and -len(names) <= self.by < len(names):
            return self.by % len(names)
        raise OptionError(f"X has no column by={self.by!r}; its columns are {', '.join(map(str, names))}.")
