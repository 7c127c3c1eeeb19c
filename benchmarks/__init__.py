"""Benchmarks: ``python -m benchmarks`` measures everything as ratios within one run. Not part of the wheel."""
