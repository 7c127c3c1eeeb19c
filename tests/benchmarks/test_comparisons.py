"""What the comparisons rest on: all solvers compute the same thing, to the same accuracy."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from barymesh.core import kernels as compiled
from barymesh.errors import NumericalError
from benchmarks import courses, exact, free_support, gradients, images, kernels
from benchmarks.cases import SolverCase
from benchmarks.contestants import ACCURACY, OTHERS, OURS, compete, least_count
from benchmarks.labels import apart


@pytest.fixture
def drawn(monkeypatch):
    """No package with handwritten digits is installed."""
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    images._originals.cache_clear()
    yield
    images._originals.cache_clear()


@pytest.mark.parametrize("case", [(3, 40, 7, 1), (2, 60, 11, 2)])
@pytest.mark.parametrize("name", ["POT semidiscrete", "POT stochastic"])
def test_gradients_agree_with_pot(case, name):
    given = gradients.problem(*case)
    found = {one: gradients.MAKERS[one](*given)() for one in (gradients.OURS, name)}
    gradients.check_agreement(found)
    assert np.allclose(found[name].sum(axis=1), 1)


def test_gradients_that_differ_are_refused():
    found = np.full((1, 4), 0.25)
    with pytest.raises(NumericalError, match="POT semidiscrete differ"):
        gradients.check_agreement({gradients.OURS: found, "POT semidiscrete": found + 1e-6})


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_kernels_compute_what_ours_do(tmp_path):
    c = kernels.compile_c(tmp_path)
    assert c is not None
    x = np.linspace(-700, 0, 64)[None]
    out = np.empty_like(x)
    c.exps(*kernels.numbers(1, 1, 64), *kernels.pointers(x, out))
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-14)
    ours = np.empty(64)
    compiled.vector_exp(x[0], ours)
    np.testing.assert_allclose(out[0], ours, rtol=1e-14)


def test_the_least_number_of_iterations_is_found():
    for needed, guess in ((300, 300), (300, 150), (90, 200), (1000, 400)):
        rate = ACCURACY ** (1 / needed)
        count, errors = least_count(lambda k, rate=rate: rate**k, guess, rate)
        assert needed <= count <= 1.06 * needed
        assert errors[count] <= ACCURACY
    # a wrong idea of the rate is corrected on the way
    for rate in (0.8, 0.99):
        count, errors = least_count(lambda k: ACCURACY ** (k / 300), 200, rate)
        assert 300 <= count <= 330
        assert errors[count] <= ACCURACY
    # even where the guess is three times too large and the rate says nothing
    for rate in (0.05, 0.999):
        assert least_count(lambda k: ACCURACY ** (k / 17), 48, rate)[0] == 17


def test_a_solver_that_stalls_is_not_counted_as_accurate():
    tried = []

    def error_of(count):
        tried.append(count)
        return 0.01 + 0.9**count

    assert least_count(error_of, 100, 0.95)[0] is None
    assert len(tried) <= 4
    assert least_count(lambda count: float("inf"), 100, 0.95)[0] is None


# objectives above the best known, by iterations
LUCKY = {5: 2.1e-4, 8: 3.6e-4, 13: 2.2e-4, 21: 1.4e-4, 34: 8.4e-5, 55: 4.5e-5, 88: 2e-5, 141: 7.6e-6, 226: 2.1e-6}
STALLED = {5: 6e-4, 8: 3e-4, 13: 2.3e-4, 21: 1.95e-4, 34: 1.94e-4, 55: 2.1e-4, 88: 2.2e-4, 141: 2.4e-4, 226: 2.6e-4}


@pytest.mark.parametrize(("made_up", "runs"), [(LUCKY, 9), (STALLED, 6)])
def test_a_course_ends_where_more_iterations_do_not_help_and_not_after_a_lucky_start(made_up, runs, monkeypatch):
    monkeypatch.setattr(courses, "MOST", 226)
    found = courses.course(
        lambda count: lambda: np.array(made_up[count]), float, 0.0, courses.Patience(5, 1.6, 60.0, 1e-11)
    )
    assert found[:, 1].tolist() == list(made_up.values())[:runs]
    assert found[:, 2].any() == (made_up is STALLED)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_labels_keep_their_order_and_do_not_collide(places):
    found = apart(places, 0.1)
    assert found.min() >= -1e-9
    assert found.max() <= 1 + 1e-9
    assert (np.diff(np.sort(found)) >= 0.1 - 1e-9).all()
    assert all(found[i] < found[j] for i, one in enumerate(places) for j, two in enumerate(places) if one < two)
    # those that are alone stay where they are
    if len(places) == 1:
        assert found.tolist() == places


@pytest.mark.parametrize(
    "case", [SolverCase(4, (12, 12)), SolverCase(3, scattered=40), SolverCase(3, (6, 6, 6)), SolverCase(3, (50,))]
)
def test_solvers_of_others_reach_our_barycenter(case, drawn):
    """POT's answer is the oracle of our reference: it meets the accuracy, so the reference is right."""
    task = exact.task_of(case)
    for name in (OURS, "POT sinkhorn"):
        row = compete(name, task, patience=20)
        assert row["seconds"] > 0
        assert row["L1"] <= ACCURACY
    assert row["iterations"] == pytest.approx(task.guess, rel=0.5, abs=5)


def test_the_summary_takes_the_fastest_that_got_there():
    rows = [
        {"solver": OURS, "seconds": 0.5, "iterations": 40, "peak MB": 100.0},
        {"solver": "A", "seconds": 5.0, "iterations": 300, "peak MB": 300.0},
        {"solver": "B", "seconds": 2.0, "iterations": 310, "peak MB": 400.0},
        {"solver": "C", "L1": 0.01, "note": "accuracy not reached", "peak MB": 10.0},
    ]
    line = exact.summary(SolverCase(5, (28, 28), target=5.0), rows, 90)
    assert (line["fastest other"], line["times faster"], line["target"]) == ("B", 4.0, 5.0)
    assert line["least other MB"] == 300.0
    assert exact.summary(SolverCase(5, (28, 28)), [rows[0], rows[3]], 90)["times faster"] == "over 180"


def test_the_figures_show_every_solver_that_got_there():
    """Also where some did not, and where a row has no time."""
    rows = [
        {
            "case": case.title,
            "solver": name,
            "seconds": None if name == "POT sinkhorn_log" else case.count * (1 + place),
        }
        for case in exact.CASES
        for place, name in enumerate([OURS, *OTHERS])
    ]
    for draw in (exact.draw_times, exact.draw_growth):
        axes = Figure().subplots()
        draw(axes, rows=rows)
        shown = {text.get_text() for text in axes.get_legend().get_texts()}
        assert shown == {OURS, *OTHERS} - {"POT sinkhorn_log"}
        assert axes.get_xscale() == "log"
    general, separable = {"case": "a", "over its exponentials": 2.0}, {"case": "b", "over its flops": 1.5}
    axes = Figure().subplots()
    kernels.draw_floors(axes, general=[general], separable=[separable])
    assert [bar.get_width() for bar in axes.patches] == [2.0, 1.5]


def test_solvers_of_others_that_are_not_run_have_rows_that_say_so(monkeypatch):
    case = free_support.Case("a small one", free_support.shapes(3, 30), 5)
    small = {"HOPELESS": 0.0, "LONG": 3, "QUICK_SECONDS": 0.05, "cases": lambda quick, say: [case]}
    for name, value in small.items():
        monkeypatch.setattr(free_support, name, value)
    rows = free_support.run(quick=True, say=lambda line: None).tables[0].rows
    ended = {row["solver"]: row["ended"] for row in rows}
    assert "POT free_support_sinkhorn" in ended
    assert not ended.pop(OURS).startswith("not run")
    assert all("iterations would take some" in why for why in ended.values())


def test_every_case_has_contestants():
    for case in (*exact.CASES, *exact.QUICK_CASES):
        assert exact.contestants(case, quick=False)[0] == OURS
    assert not {"POT convolutional", "POT convolutional log"} & set(
        exact.contestants(SolverCase(1, (3, 3, 3)), quick=False)
    )
    assert set(exact.contestants(SolverCase(1, (3, 3)), quick=False)) <= {OURS, *OTHERS}


def test_there_are_images_without_any_package(drawn):
    assert "drawn" in images.source()
    many = images.digits(520, 32)
    assert many.shape == (520, 32, 32)
    np.testing.assert_allclose(many.sum(axis=(1, 2)), 1)
    assert (many >= 0).all()
