"""The problem: whose barycenter, on which support, under which cost and regularisation. Checked before any work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from barymesh import readers as read
from barymesh.checks import is_array
from barymesh.cost import SQUARED, Cost, CostLike
from barymesh.errors import (
    AccuracyWarning,
    BarymeshError,
    OptionError,
    RegularisationError,
    warn,
)
from barymesh.estimates import Work, largest_cost, median_cost, share_outside, spacing_too_wide, work
from barymesh.measures import (
    Atoms,
    Discretisation,
    Empirical,
    Histogram,
    Image,
    Measure,
    as_measures,
    discretise,
)
from barymesh.measures.absent import Absent, absent_cost
from barymesh.measures.base import draw
from barymesh.measures.lazy import Lazy
from barymesh.measures.stack import ImageStack
from barymesh.problem_input import (
    check_dimensions,
    check_symmetric,
    checked_weights,
    common_names,
    exact_measures,
    lives_on,
    measures_on,
    on_columns,
    unplaced,
)
from barymesh.random import addressed_generator
from barymesh.resources import memory
from barymesh.support.choice import choose_support
from barymesh.support.free import START, FreeSupport, draws_for, kmeans_plus_plus
from barymesh.support.points import Support

if TYPE_CHECKING:
    from barymesh.oracle.base import Oracle
    from barymesh.oracle.bounds import ProductCosts

Floats = NDArray[np.float64]
# masses below this are left out in that precision: they would underflow, and all together are below its rounding
NEGLIGIBLE = {"float64": 0.0, "float32": 1e-30}
# of a measure that is not discrete, to see how much of it the support reaches
DRAWS = 256
# a support that misses more of the measures' mass than this was probably meant to be elsewhere; a single measure with
# more than that of its mass farther away than the support is long is probably in other units
MUCH_OUTSIDE, MUCH_OF_ONE = 0.1, 0.5
# arrays of the size (measures, support) that a solve holds at once, the acceleration's history counted as half
ARRAYS_HELD = 12


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A barycenter problem ready to solve. Make one with ``Problem.create``, which checks and completes it.

    Attributes
    ----------
    measures : list of Measure
        Whose barycenter, m of them.
    support : Support
        Where it lives.
    cost : Cost
        Of moving mass.
    reg : float
        The regularisation, in units of the cost.
    weights : array (m,)
        The importance of each measure, with sum 1.
    seed : int
        Of everything random.
    samples : int
        Draws of measures that can only be sampled.
    precision : str
        Of the arithmetic.
    free : FreeSupport or None
        The support's points move: those of ``support`` stand for them until they have a place.
    debias : bool
        Whether the transport of the barycenter to itself is subtracted.
    first : int
        The number of the first measure, in a part of a larger problem.
    """

    measures: Sequence[Measure]
    support: Support
    cost: Cost
    reg: float
    weights: Floats
    seed: int
    samples: int
    precision: str
    free: FreeSupport | None = None
    debias: bool = False
    first: int = 0

    @classmethod
    def create(
        cls,
        measures: Any,
        support: Any = None,
        *,
        reg: float,
        relative_reg: bool = False,
        weights: ArrayLike | str | None = None,
        cost: CostLike = SQUARED,
        seed: int = 0,
        samples: int = 1000,
        precision: str = "float64",
        debias: bool = False,
    ) -> Problem:
        """Check every input, choose the support if none is given, and turn a relative reg into an absolute one.

        Parameters
        ----------
        measures, support, reg, relative_reg, weights, cost, seed, samples, precision, debias
            As in ``barymesh.barycenter``.

        Returns
        -------
        Problem
            Complete, and known to be sound.

        Examples
        --------
        >>> from barymesh import Gaussian, Problem
        >>> problem = Problem.create([Gaussian(0, 1), Gaussian(3, 1)], range(-4, 8), reg=1, weights=[1, 3])
        >>> problem.support, problem.weights
        (Support(12 grid on [-4, 7]), array([0.25, 0.75]))
        """
        number = read.regularisation("reg", reg)
        samples, seed = read.count("samples", samples), read.whole("seed", seed)
        precision = read.one_of(*read.PRECISIONS)("precision", precision)
        moving = Cost(cost)
        wanted = None if support is None else read.support("support", support)
        given = wanted if isinstance(wanted, Support) else None
        free = wanted if isinstance(wanted, FreeSupport) else None
        if free is not None and (not moving.squared or precision != "float64"):
            raise OptionError(
                f"A free support needs the cost 'sqeuclidean' and float64, not cost={cost!r} and {precision}: points "
                "move to means, which belong to squared distances."
            )
        if given is None and moving.matrix_given is not None:
            given = Support(
                np.arange(moving.matrix_given.shape[0], dtype=float),
                reason="numbered points, because the cost is a matrix",
            )
        if free is not None and isinstance(measures, list | tuple):
            # where points move, a table can only be samples, in however many dimensions
            measures = [Empirical(one) if is_array(one) and np.ndim(one) == 2 else one for one in measures]
        nodes = exact_measures(as_measures(measures, given, histograms_have_cost=moving.matrix_given is not None))
        masses = checked_weights(weights, nodes)
        if moving.matrix_given is not None:
            columns = np.arange(moving.matrix_given.shape[1], dtype=float)[:, None]
            nodes = [on_columns(k, node, columns) for k, node in enumerate(nodes)]
        if free is not None:
            chosen = unplaced(free, nodes)
        else:
            chosen = given or choose_support(
                nodes, None if relative_reg else number, own=support is None, seed=seed, samples=samples
            )
        if moving.matrix_given is None:
            check_dimensions(nodes, chosen)
        else:
            moving.check_shape(chosen.size, moving.matrix_given.shape[1])
        names = common_names(nodes)
        if names and not chosen.names:
            chosen = chosen.named(names)
        drawn = sum(node.sampled_only for node in nodes)
        memory.require(
            16 * drawn * samples * chosen.dimension,
            f"{samples} samples of each of {drawn} measures",
            "Ask for fewer samples.",
        )
        memory.require(
            ARRAYS_HELD * 8 * len(nodes) * chosen.size,
            f"A barycenter of {len(nodes)} measures on {chosen.size} support points",
            "Use a coarser support or fewer measures.",
        )
        problem = cls(
            measures=nodes,
            support=chosen,
            cost=moving,
            reg=number,
            weights=masses,
            seed=seed,
            samples=samples,
            precision=precision,
            free=free,
            debias=read.boolean("debias", debias),
        )
        if problem.debias:
            if free is not None:
                raise OptionError(
                    "debias=True needs a support whose points stay, and those of a FreeSupport move. Leave out debias, "
                    "or give points or a grid."
                )
            check_symmetric(moving, chosen)
        if relative_reg:
            placed = problem
            if free is not None:
                placed = problem.placed(problem.start_points(0))
            absolute = number * placed.median_cost()
            if not absolute > 0:
                raise RegularisationError(
                    "The median cost is 0, so reg cannot be relative to it. Give an absolute reg, without "
                    "relative_reg (on the command line --relative)."
                )
            problem = replace(problem, reg=absolute)
        problem.warn_of_support()
        return problem

    def warn_of_support(self) -> None:
        """Warn if the support is too coarse for reg, or misses much of the measures' mass."""
        if self.cost.matrix_given is not None or self.free is not None:
            return
        # measures on the very points of the support have nothing between them that could be missed
        between = not all(lives_on(self.support, measure) for measure in self.measures)
        if between and self.cost.squared and spacing_too_wide(self.support, self.reg):
            warn(
                f"The spacing of the support, {self.support.spacing:.2g}, exceeds sqrt(reg) = {np.sqrt(self.reg):.2g}, "
                "so that mass collects on single points. Use a finer support, or a larger reg, from "
                f"{self.support.spacing * self.support.spacing:.2g} on.",
                AccuracyWarning,
            )
        share, whose = self.share_outside(), "the measures' mass"
        if share <= MUCH_OUTSIDE:
            low, high = self.support.ends
            shares = self._shares_outside(float((high - low).max()))
            farthest = max(shares, key=lambda k: shares[k], default=0)
            share, whose = shares.get(farthest, 0.0), f"the mass of measure {farthest}"
            if share <= MUCH_OF_ONE:
                return
        warn(
            f"About {share:.0%} of {whose} lies outside the support, which spans {self.support.box}; it is moved "
            "there, however far that is. If the support was not meant to be there, give another, or none to have it "
            "chosen from the data.",
            AccuracyWarning,
        )

    def placed(self, points: Floats) -> Problem:
        """The problem on the points ``(n, d)`` that a free support has moved to. The atoms do not depend on them."""
        reason, names = self.support.reason, self.support.names
        placed = replace(self, support=Support.scattered(points, reason=reason, names=names))
        if "atoms" in self.__dict__:
            placed.__dict__["atoms"] = self.atoms
        return placed

    def start_points(self, start: int, drawn: Callable[[NDArray[np.int64], int], Floats] | None = None) -> Floats:
        """``(n, d)``: where the points of a free support begin, at this of several starts: as given, or by k-means++
        among draws from all measures. ``drawn``: what draws them, if they are not here; see ``drawn`` below."""
        free = self.free
        assert free is not None
        if free.points is not None:
            return free.points
        rng = addressed_generator(free.seed, START, start)
        shares = rng.multinomial(draws_for(free), self.weights)
        return kmeans_plus_plus(free.n, (drawn or self.drawn)(shares, start), rng)

    def drawn(self, shares: NDArray[np.int64], start: int) -> Floats:
        """``(sum of the shares, d)``: for one of several starts of a free support, ``shares (m,)`` draws of each
        measure, one measure after the other."""
        assert self.free is not None
        found = [np.empty((0, self.support.dimension))]
        for node in np.flatnonzero(shares):
            rng = addressed_generator(self.free.seed, START + 1 + self.first + int(node), start)
            found.append(draw(self.atoms[node].points, self.atoms[node].weights, int(shares[node]), rng))
        return np.concatenate(found)

    def with_measures(self, measures: list[Measure], weights: Floats) -> Problem:
        """The problem with other measures, and weights that need not sum to 1."""
        return replace(self, measures=measures, weights=weights / weights.sum())

    def part(self, numbers: NDArray[np.integer[Any]], weights: Floats, atoms: list[Atoms] | None = None) -> Problem:
        """The problem of the measures with these ``numbers (k,)`` and ``weights (k,)``, which need not sum to 1. They
        keep the atoms they have here, unless others are given."""
        part = self.with_measures([self.measures[k] for k in numbers], weights)
        # samples would be drawn anew otherwise, as if the measures had other places in the list
        part.__dict__["atoms"] = [self.atoms[k] for k in numbers] if atoms is None else atoms
        return part

    def on(self, support: Support, atoms: list[Atoms]) -> Problem:
        """The problem on another support, with these atoms of the measures."""
        other = replace(self, support=support)
        other.__dict__["atoms"] = atoms
        return other

    def with_further_measures(self, more: Any) -> Problem:
        """The problem with further measures, each with the mean of the weights."""
        if not more:
            return self
        try:
            added = measures_on(self.support, self.cost, more)
        except BarymeshError as error:
            raise type(error)(f"The measures of events: {error}") from error
        weights = np.concatenate([self.weights, np.full(len(added), self.weights.mean())])
        return self.with_measures([*self.measures, *added], weights)

    def with_weights(self, weights: Floats) -> Problem:
        """The problem with other weights; atoms and oracles stay."""
        other = replace(self, weights=weights)
        made = {name: value for name, value in self.__dict__.items() if name not in self.__dataclass_fields__}
        other.__dict__.update(made)
        return other

    def part_of(self, places: slice) -> Problem:
        """The problem of the measures at these places, which follow one another."""
        first = self.first + (places.start or 0)
        return replace(self, measures=self.measures[places], weights=self.weights[places], first=first)

    def forget(self) -> None:
        """Forget atoms and oracles, which take much memory and can be made again."""
        for name in [name for name in self.__dict__ if name not in self.__dataclass_fields__]:
            del self.__dict__[name]

    def without_oracles(self) -> Problem:
        """The same without what takes much memory and can be made again."""
        kept = replace(self)
        if "atoms" in self.__dict__:
            kept.__dict__["atoms"] = self.atoms
        return kept

    def without_data(self) -> Problem:
        """The same without the data of the measures, and without a cost that is a function or a matrix."""
        own = self.cost.function is not None or self.cost.matrix_given is not None
        absent: list[Measure] = [Absent(measure.label) for measure in self.measures]
        return replace(self, measures=absent, cost=Cost(absent_cost) if own else self.cost)

    def _repr_html_(self) -> str:
        from barymesh.viz.html import problem_as_html

        return problem_as_html(self)

    @property
    def resolution(self) -> float:
        """The length below which the softmax of the oracle is smooth: quadratures must be finer than this."""
        width = np.sqrt(self.reg)
        if self.free is not None:
            return float(width)
        return (
            float(min(width, self.reg / (2 * self.support.spacing)))
            if self.cost.squared
            else float(min(width, self.reg))
        )

    @cached_property
    def atoms(self) -> list[Atoms]:
        """Every measure as atoms: itself, a quadrature, or ``samples`` draws addressed by (seed, node)."""
        return self._atoms(self.resolution)

    def atoms_of(self, node: int) -> Atoms:
        """The atoms of one measure. The others need not be here."""
        if "atoms" in self.__dict__:
            return self.atoms[node]
        found = self.measures[node].atoms(self._discretisation(self.resolution, node))
        return found.without(NEGLIGIBLE[self.precision])

    def _atoms(self, resolution: float) -> list[Atoms]:
        if isinstance(self.measures, ImageStack):
            return self.measures.atoms()
        found = discretise(self.measures, partial(self._discretisation, resolution))
        return [a.without(NEGLIGIBLE[self.precision]) for a in found]

    def _discretisation(self, resolution: float, node: int) -> Discretisation:
        address = partial(addressed_generator, self.seed, self.first + node)
        return Discretisation(self.support, resolution, self.samples, address)

    @cached_property
    def oracle(self) -> Oracle:
        """Values and gradients of every measure's dual function, in the problem's precision."""
        return self._oracle(read.PRECISIONS[self.precision])

    @cached_property
    def float64_oracle(self) -> Oracle:
        """The same in float64, whatever the precision: what certificates are computed with."""
        return self.oracle if self.precision == "float64" else self._oracle(np.float64)

    def _oracle(self, dtype: type) -> Oracle:
        # the compiled kernels are loaded when they are needed
        from barymesh.oracle.grid import GridOracle
        from barymesh.oracle.groups import build_oracle

        grid, form = self.support.grid, self.cost.separable
        if isinstance(self.measures, ImageStack) and grid is not None and form is not None:
            # what build_oracle would find, image by image; on coarser points atoms have another grid than the pixels
            own = self.atoms[0].grid
            assert own is not None
            return GridOracle(self.atoms, own, grid, form, self.reg, dtype)
        return build_oracle(self.atoms, self.support, self.cost, self.reg, dtype)

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again: problems travel to other processes."""
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}

    def median_cost(self) -> float:
        """The median cost between a support point and a unit of the measures' mass, both drawn at random.

        Returns
        -------
        float
            What a relative reg is a multiple of: exact up to a million pairs of points, beyond that the median over a
            million random pairs, which depend on the seed alone.
        """
        if self.cost.matrix_given is not None:
            return float(np.median(self.cost.matrix_given))
        return median_cost(self._atoms(self.support.spacing), self.support, self.cost, self.seed)

    def largest_cost(self) -> float:
        """The largest cost between any support point and any atom.

        Returns
        -------
        float
            The cost, exactly.
        """
        return largest_cost(self.atoms, self.support, self.cost)

    @cached_property
    def product_costs(self) -> ProductCosts:
        """The costs of product plans, for certificates."""
        from barymesh.oracle.bounds import ProductCosts, SquaredProductCosts

        if self.cost.squared:
            return SquaredProductCosts(self.largest_cost(), self.atoms, self.support)
        return ProductCosts(self.largest_cost(), self.support.size)

    def share_outside(self) -> float:
        """How much of the measures' mass the support does not reach.

        Returns
        -------
        float
            The share, from 0 to 1, that lies more than one spacing outside the box around the support: exact for
            discrete measures, from a few hundred draws of others. Measures that are not known here do not count, nor
            does any for a support of one point.
        """
        shares = self._shares_outside(self.support.spacing)
        if not shares:
            return 0.0
        weights = self.weights[list(shares)]
        return min(1.0, float(weights @ list(shares.values()) / weights.sum()))

    def _shares_outside(self, margin: float) -> dict[int, float]:
        """The same, beyond this margin, of every measure that is known here, by its number."""
        if self.support.size < 2 or self.free is not None:
            return {}
        return {
            k: 0.0 if lives_on(self.support, measure) else share_outside(*self._located(k), self.support, margin)
            for k, measure in enumerate(self.measures)
            if not isinstance(measure, Lazy | Absent)
        }

    def _located(self, node: int) -> tuple[Floats, Floats]:
        """Points and masses that show where a measure is; no quadrature is made for that."""
        measure = self.measures[node]
        if isinstance(measure, Empirical | Histogram | Image):
            atoms = measure.atoms(Discretisation(self.support))
        elif measure.sampled_only:
            # drawn once, as they are needed again
            atoms = self.atoms[node]
        else:
            return measure.sample(DRAWS, addressed_generator(self.seed, node, DRAWS)), np.full(DRAWS, 1.0 / DRAWS)
        return atoms.points, atoms.weights

    @property
    def work(self) -> Work:
        """What an iteration of the exact solver takes; as text, with what can be done about it."""
        return work(self.atoms, self.support, self.cost)


def support_cost(problem: Problem) -> float:
    """The largest cost between two points of the support, which every node knows; of a cost matrix its largest
    entry."""
    return problem.cost.largest(problem.support, problem.support.points)
