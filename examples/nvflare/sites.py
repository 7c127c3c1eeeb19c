"""Sent to the sites with the job, or installed there: how a site reads its own data."""

import os

import barymesh as bm
from barymesh.integrations.nvflare import site_measure


@site_measure
def load(site: str) -> bm.Measure:
    """The samples of this site: a file of its name, in the folder that the site itself has set."""
    return bm.read_measures(f"{os.environ['BARYMESH_DATA']}/{site}.csv")[0]
