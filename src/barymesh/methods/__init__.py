"""The methods, each a pair: what a node computes from its own measure, and what the root makes of the sum."""
