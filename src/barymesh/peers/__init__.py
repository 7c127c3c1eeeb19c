"""Peers on a real network: what they say to one another, who they are, and the links between them."""
