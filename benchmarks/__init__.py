"""Compares this consumer with others, on one broker and in one run: `python -m benchmarks`."""
