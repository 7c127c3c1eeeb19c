"""Histories of runs on a network: the right panels, and values below the optimum in plain sight."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image as Pillow

import barymesh as bm
from barymesh.viz.comparison import plot_runs
from barymesh.viz.theme import PALETTE

TIMES = np.arange(6.0)
WITH_REFERENCE = [
    "dual objective minus the optimum",
    "consensus (mean L1 distance)",
    "feasibility residual",
    "total variation to the true barycenter",
]


def run(dual_error=None, feasibility=None, **changes):
    """A history of six records."""
    columns = {
        "time": TIMES,
        "dual_objective": 1 - TIMES,
        "consensus": np.exp(-TIMES),
        "feasibility": 0.01 * TIMES if feasibility is None else feasibility,
        "tv": 0.5 * np.exp(-0.1 * TIMES),
        "dual_error": np.exp(-TIMES) if dual_error is None else dual_error,
        "activations": 10 * TIMES,
        "messages": 20 * TIMES,
        "bytes": 160 * TIMES,
    }
    return bm.History({**columns, **changes})


def without(history, *names):
    return bm.History({name: column for name, column in history.columns.items() if name not in names})


def drawn(figure):
    """The figure as a picture; drawing must not warn."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return np.asarray(Pillow.open(out).convert("L"))


def titles(figure):
    return [axes.get_title() for axes in figure.axes]


def lines(axes):
    """The lines of the runs; the line at zero has two points."""
    return [line for line in axes.lines if len(line.get_xdata()) == len(TIMES)]


def test_a_run_with_a_reference_has_four_panels_true_to_the_numbers():
    history = run()
    figure = history.plot()
    assert drawn(figure).min() < 128
    assert titles(figure) == WITH_REFERENCE
    for axes, column in zip(figure.axes, ("dual_error", "consensus", "feasibility", "tv"), strict=True):
        (line,) = lines(axes)
        np.testing.assert_array_equal(line.get_xdata(), history["time"])
        known = history[column] > 0
        np.testing.assert_array_equal(line.get_ydata()[known], history[column][known])
        assert axes.get_xlabel() == "virtual time (s)"
        assert axes.get_yscale() == "log"
    assert figure.legends == []


def test_a_run_without_a_reference_has_three_panels():
    history = without(run(), "tv", "dual_error")
    figure = history.plot()
    drawn(figure)
    assert titles(figure) == ["dual objective", *WITH_REFERENCE[1:3]]
    assert figure.axes[0].get_yscale() == "linear"
    np.testing.assert_array_equal(lines(figure.axes[0])[0].get_ydata(), history["dual_objective"])


def test_a_reference_that_is_not_a_number_is_as_good_as_none():
    unknown = np.full(6, np.nan)
    assert titles(run(dual_error=unknown, tv=unknown).plot()) == ["dual objective", *WITH_REFERENCE[1:3]]


def test_values_below_the_optimum_are_drawn_and_marked():
    dual_error = np.array([2.0, 1.0, 0.1, -0.05, -0.2, -0.3])
    figure = run(dual_error=dual_error).plot()
    drawn(figure)
    axes = figure.axes[0]
    assert axes.get_yscale() == "symlog"
    np.testing.assert_array_equal(lines(axes)[0].get_ydata(), dual_error)
    low, high = axes.get_ylim()
    assert low < -0.3
    assert high > 2.0
    (text,) = axes.texts
    assert text.get_text() == "below the optimum: infeasible"


def test_nothing_is_marked_above_the_optimum():
    assert not run().plot().axes[0].texts


def test_zeros_neither_warn_nor_stretch_the_axis():
    """The duals sum to zero at time 0, whatever comes later."""
    figure = run().plot()
    drawn(figure)
    assert figure.axes[2].get_ylim()[0] > 1e-3


@pytest.mark.parametrize("rounding", [np.zeros(6), np.full(6, 3e-18)])
def test_a_run_that_stays_feasible_is_a_line_at_rounding(rounding):
    axes = run(feasibility=rounding).plot().axes[2]
    np.testing.assert_array_equal(lines(axes)[0].get_ydata(), 1e-16)


@pytest.mark.parametrize("dual_error", [np.zeros(6), -np.ones(6), np.array([1.0, 0, 0, 0, 0, 0])])
def test_strange_dual_errors_are_drawn(dual_error):
    drawn(run(dual_error=dual_error).plot())


def test_a_run_of_one_record_is_a_dot():
    figure = bm.History({name: column[:1] for name, column in run().columns.items()}).plot()
    drawn(figure)
    assert all(axes.lines[0].get_marker() == "o" for axes in figure.axes)


def test_a_run_without_records_is_drawn_without_an_error():
    drawn(bm.History({name: column[:0] for name, column in run().columns.items()}).plot())


def test_runs_are_drawn_together_with_a_legend_and_colours_of_their_own():
    runs = {"dcwb": run(feasibility=np.zeros(6)), "a2dwb": run(dual_error=1 - TIMES), "other": run()}
    figure = plot_runs(runs)
    drawn(figure)
    assert titles(figure) == WITH_REFERENCE
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(runs)
    for axes in figure.axes:
        own = lines(axes)
        assert [line.get_color() for line in own] == list(PALETTE[:3])
        assert len({line.get_linestyle() for line in own}) == 3
    for line, history in zip(lines(figure.axes[0]), runs.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), history["dual_error"])


def test_runs_of_different_length_share_the_time_axis():
    """One was interrupted."""
    short = bm.History({name: column[:2] for name, column in run().columns.items()})
    figure = plot_runs({"short": short, "long": run()})
    drawn(figure)
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
