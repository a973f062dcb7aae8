"""This consumer beside others, on one Kafka and in one run: `python -m benchmarks`."""
