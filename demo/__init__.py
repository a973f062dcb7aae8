"""A crash and a recovery to look at: `python -m demo`, or `make demo`.

A consumer reads a stream of numbered records in a process of its own, is killed, and another
goes on from the committed offsets. Every record is accounted for. The cluster is the one that
librdkafka has built in for tests; nothing has to be installed or started.
"""
