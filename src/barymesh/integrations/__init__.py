"""Barycenters in frameworks for federated computing, which have a server and clients: rounds on a star."""
