"""Benchmarks, for developers and users: ``barymesh bench`` measures everything in ratios within one run."""
