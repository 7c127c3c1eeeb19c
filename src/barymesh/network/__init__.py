"""Communication networks: graphs of nodes."""

from __future__ import annotations

from barymesh.network.parsing import GENERATORS, as_network
from barymesh.network.topology import Network, require_unweighted

__all__ = ["GENERATORS", "Network", "as_network", "require_unweighted"]
