"""Handwritten digits for examples, benchmarks and figures: ``mnist.mnist`` and ``digits.small_digits``."""
