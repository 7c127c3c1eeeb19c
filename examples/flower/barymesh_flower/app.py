"""Each site reads its own file, and the server learns sums of what follows from it."""

import numpy as np
from flwr.app import Context

import barymesh as bm
from barymesh.integrations.flower import client_app, server_app


def load(context: Context) -> bm.Measure:
    """The samples of this site: the file that its SuperNode was started with, or an example in the simulation."""
    if "data" in context.node_config:
        return bm.read_measures(str(context.node_config["data"]))[0]
    number = int(context.node_config["partition-id"])
    rng = np.random.default_rng(number)
    return bm.Empirical(rng.normal(number - 1.0, 0.5, size=(50 * (number + 1), 1)))


client = client_app(load)
server = server_app()
