"""This Spark source beside Spark's own Kafka connector: `python -m benchmarks.spark`.

One broker, one warm session, the same topics; the sources take turns, so that a busy machine is
equally busy for all. Medians are printed beside those of the connector and of a Python source that
reads nothing, which is what Spark itself takes for one.
"""
