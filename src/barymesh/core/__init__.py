"""The compiled kernels: loops over arrays of numbers, and no other logic."""
