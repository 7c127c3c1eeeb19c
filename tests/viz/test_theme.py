"""Values and numbers as figures and pages show them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barymesh.viz.theme import log_values, shown_number


def test_numbers_for_readers():
    written = [shown_number(value) for value in (0.0, 0.012345, -1.2345e-9, 12345.678, 1e-5, np.nan)]
    assert written == ["0", "0.0123", "−1.2 × 10⁻⁹", "12,346", "1.0 × 10⁻⁵", "–"]  # noqa: RUF001
    assert [shown_number(10.0**k, 1) for k in (-5, -2, 0, 3)] == ["10⁻⁵", "0.01", "1", "1,000"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.0, 1.0, 0.5], [np.nan, 1.0, 0.5]),
        ([0.0, 0.0, 1.0, 0.0], [np.nan, np.nan, 1.0, 1e-3]),
        ([1e-9, np.nan, 1.0], [1e-3, np.nan, 1.0]),
        ([0.0, 0.0], [1e-3, 1e-3]),
        ([], []),
    ],
)
def test_zeros_at_the_start_are_left_out_and_small_values_are_raised(values, shown):
    np.testing.assert_array_equal(log_values(np.array(values), 1e-3), shown)


@given(st.lists(st.floats(0, 1e6) | st.just(np.nan), max_size=20), st.floats(1e-12, 1.0))
def test_what_a_logarithmic_axis_shows_lies_on_it(values, lowest):
    given_values = np.array(values)
    shown = log_values(given_values, lowest)
    known = np.isfinite(shown)
    assert (shown[known] >= lowest).all()
    large = given_values >= lowest
    np.testing.assert_array_equal(shown[large], given_values[large])
