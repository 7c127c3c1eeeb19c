"""Noise against epsilon: the closed form of the Gaussian mechanism, and releases that add up."""

from __future__ import annotations

import subprocess
import sys

import dp_accounting
import numpy as np
import pytest
import scipy.stats

from barymesh.errors import MissingPackageError
from barymesh.privacy.accounting import composed_epsilon, noise_multiplier


def delta_of(z, epsilon):
    """Balle and Wang (2018), theorem 8, with sensitivity 1 and deviation z."""
    normal = scipy.stats.norm
    return normal.cdf(0.5 / z - epsilon * z) - np.exp(epsilon + normal.logcdf(-0.5 / z - epsilon * z))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_the_noise_is_the_least_that_does(epsilon, delta):
    z = noise_multiplier(epsilon, delta)
    assert delta_of(z, epsilon) <= delta
    assert delta_of(0.999 * z, epsilon) > delta
    assert composed_epsilon([z], delta) == pytest.approx(epsilon, rel=1e-5)


def test_releases_compose_as_the_numerical_accountant_says():
    multipliers, delta = [4.0, 2.5, 7.0, 7.0], 1e-6
    accountant = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    for z in multipliers:
        # it doubles the sensitivity for a replaced record; ours is that of a replacement already
        accountant.compose(dp_accounting.GaussianDpEvent(2 * z))
    assert composed_epsilon(multipliers, delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-3)


def test_more_releases_cost_more_and_none_nothing():
    z = noise_multiplier(1.0, 1e-6)
    spent = [composed_epsilon([z] * count, 1e-6) for count in range(5)]
    assert spent[0] == 0
    assert (np.diff(spent) > 0).all()
    # less than the sum of the single ones
    assert spent[4] < 4


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'barymesh\[privacy\]'"):
        noise_multiplier(1.0, 1e-6)


def test_the_library_is_imported_only_when_it_is_needed():
    code = "import sys, barymesh.privacy; print('dp_accounting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
