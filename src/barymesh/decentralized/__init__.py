"""Decentralised algorithms: pure state machines on a batch of nodes. Engines run them."""
