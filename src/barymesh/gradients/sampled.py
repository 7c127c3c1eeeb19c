"""Stochastic gradients: every node's oracle estimated from a few fresh draws of its measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from barymesh.core import kernels
from barymesh.measures import Atoms, Empirical, Gaussian, Histogram, Image, Measure, Mixture
from barymesh.oracle.base import Floats, Indices
from barymesh.problem import Problem
from barymesh.random import addressed_generator

# numbers of the cost matrix made at a time where the cost is not the squared one
COST_NUMBERS = 10_000_000


@dataclass(frozen=True)
class Components:
    """A measure as weighted points, each with a triangular root ``(d, d)`` of a covariance, or None; see
    core/sampled.h."""

    weights: Floats
    centres: Floats
    roots: list[Floats | None]


class SampledOracle:
    """``gradient(lam, nodes, activations, sizes)``: the mean of the softmax over M fresh draws of each node's measure.

    The draws depend on (seed, node, activation) alone. Gaussians, discrete measures and their mixtures are drawn in
    compiled code; samplers and scipy's distributions by calling them.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.reg, self.size = problem.reg, problem.support.size
        self.dimension = problem.support.dimension
        parts = [_components(m, a) for m, a in zip(problem.measures, problem.atoms, strict=True)]
        counts = [0 if part is None else part.weights.size for part in parts]
        known = [part for part in parts if part is not None]
        self.last = np.cumsum(counts, dtype=np.intp)
        self.first = self.last - np.array(counts, dtype=np.intp)
        self.called = np.flatnonzero(np.array(counts) == 0)
        self.unit = np.sqrt(self.reg) if problem.cost.squared else 1.0
        self.cumulative = np.concatenate([np.cumsum(part.weights) for part in known] or [np.empty(0)])
        empty = np.empty((0, self.dimension))
        self.centres: Floats = np.concatenate([part.centres for part in known] or [empty]) / self.unit
        roots = [root for part in known for root in part.roots]
        given = [root for root in roots if root is not None]
        self.root = np.where([root is not None for root in roots], np.cumsum([r is not None for r in roots]) - 1, -1)
        self.root = self.root.astype(np.intp)
        self.roots: Floats = np.array(given or np.empty((0, self.dimension, self.dimension))) / self.unit
        self.support_t: Floats = np.ascontiguousarray(problem.support.points.T) / self.unit
        grid = problem.support.grid
        # the coordinates along the axes of a grid, where the cost adds up over them
        self.axes: tuple[Floats, ...] | None = None
        if problem.cost.squared and grid is not None and grid.dimension >= 2:
            self.axes = tuple(np.ascontiguousarray(axis / self.unit) for axis in grid.axes)

    def gradient(self, lam: Floats, nodes: Indices, activations: Indices, sizes: Indices) -> Floats:
        """``(b, n)``: the estimates at ``lam (b, n)`` from ``sizes (b,)`` draws each, for activation ``activations
        (b,)`` of the nodes."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        p = np.empty(lam.shape)
        lam, scale, seed = np.ascontiguousarray(lam), 1.0 / self.reg, self.problem.seed % 2**64
        tables = (self.first, self.last, self.cumulative, self.centres, self.root, self.roots)
        if self.axes is not None and self.called.size == 0:
            kernels.sampled_grid_gradients(
                lam, scale, self.support_t, self.axes, seed, nodes, activations, starts, *tables, p
            )
            return p
        if self.problem.cost.squared and self.called.size == 0:
            kernels.sampled_gradients(lam, scale, self.support_t, seed, nodes, activations, starts, *tables, p)
            return p
        points = np.empty((int(starts[-1]), self.dimension))
        kernels.draw_points(seed, nodes, activations, starts, *tables, points)
        for i in np.flatnonzero(self.last[nodes] == self.first[nodes]):
            rng = addressed_generator(self.problem.seed, int(nodes[i]), int(activations[i]))
            drawn = self.problem.measures[nodes[i]].sample(int(sizes[i]), rng)
            points[starts[i] : starts[i + 1]] = drawn / self.unit
        if self.problem.cost.squared:
            kernels.mean_softmax(lam, scale, self.support_t, points, np.empty((0, self.size)), starts, p)
            return p
        rows = max(1, COST_NUMBERS // (int(sizes.max()) * self.size))
        for begin in range(0, len(lam), rows):
            some = slice(begin, min(len(lam), begin + rows))
            part = points[starts[some.start] : starts[some.stop]]
            costs = np.ascontiguousarray(self.costs(part).T / self.reg)
            offsets = starts[some.start : some.stop + 1] - starts[some.start]
            kernels.mean_softmax(lam[some], scale, self.support_t, part, costs, offsets, p[some])
        return p

    def costs(self, points: Floats) -> Floats:
        cost = self.problem.cost
        if cost.matrix_given is not None:
            # the atoms of such measures are the matrix's columns, numbered
            return cost.matrix_given[:, points[:, 0].astype(np.intp)]
        return cost.matrix(self.problem.support.points, points)


def _components(measure: Measure, atoms: Atoms) -> Components | None:
    """The measure as components, or None if it must be called."""
    if isinstance(measure, Gaussian):
        return Components(np.ones(1), measure.mean[None], [np.asarray(measure.root, dtype=float)])
    if isinstance(measure, Empirical | Histogram | Image):
        return Components(atoms.weights, atoms.points, [None] * atoms.weights.size)
    if isinstance(measure, Mixture) and all(isinstance(c, Gaussian) for c in measure.components):
        gaussians = [c for c in measure.components if isinstance(c, Gaussian)]
        return Components(
            measure.weights, np.array([g.mean for g in gaussians]), [np.asarray(g.root, dtype=float) for g in gaussians]
        )
    return None
