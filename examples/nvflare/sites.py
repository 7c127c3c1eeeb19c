"""Sent to the sites with the job: how a site reads its own data."""

import os

import barymesh as bm


def load(site: str) -> bm.Measure:
    """The samples of this site: a file of its name, in the folder that the site itself has set."""
    return bm.read_measures(f"{os.environ['BARYMESH_DATA']}/{site}.csv")[0]


def identity(site: str) -> str:
    """The folder with the key of this site, and sites.toml with those of all."""
    return f"{os.environ['BARYMESH_DATA']}/{site}"
