"""Compares this Spark source with Spark's own Kafka connector: `python -m benchmarks.spark`.

All sources use one broker, one warm session and the same topics. They take turns, so that other
load affects all of them alike. A Python source that reads nothing shows the cost of Spark itself.
"""
