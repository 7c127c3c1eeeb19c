"""Each site reads its own file and its own key, and the server learns sums over all sites."""

import numpy as np
from flwr.app import Context

import barymesh as bm
from barymesh.integrations.flower import client_app, server_app
from barymesh.integrations.identity import Identity


def load(context: Context) -> bm.Measure:
    """The samples of this site: the file that its SuperNode was started with, or an example in the simulation."""
    if "data" in context.node_config:
        return bm.read_measures(str(context.node_config["data"]))[0]
    number = int(context.node_config["partition-id"])
    rng = np.random.default_rng(number)
    return bm.Empirical(rng.normal(number - 1.0, 0.5, size=(50 * (number + 1), 1)))


def identity(context: Context) -> Identity | str | None:
    """The folder with its keys that the SuperNode was started with; for the data of the example, and no others, keys
    that are no secret."""
    if "data" in context.node_config:
        return str(context.node_config["identity"]) if "identity" in context.node_config else None
    return Identity.of_one_owner(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


client = client_app(load, identity)
server = server_app()
