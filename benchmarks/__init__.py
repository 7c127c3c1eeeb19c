"""Benchmarks, for developers and users: ``python -m benchmarks`` measures everything in ratios within one run."""
