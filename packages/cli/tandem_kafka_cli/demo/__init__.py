"""A group that loses members to look at: `tandem-kafka demo`, or `make demo`.

The members of a consumer group read a stream of numbered records, each in a separate process.
One is stopped, another is killed; the others take their partitions over. Every record is accounted
for (`ledger.py`). The cluster is simulated in this process; nothing has to be installed or started.
"""
