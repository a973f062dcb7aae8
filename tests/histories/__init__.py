"""Histories of what producers, consumers and committers did, and the anomalies in them.

operations.py   the operations, and their lines of JSON
anomalies.py    the checks, one for each kind of anomaly
ledger.py       whether all is read and committed: one consumer, or the members of a group
share_events.py what members of a share group report
share_ledger.py the same question for a share group
members.py      members of a group, of each kind of consumer, that record what they do
recorder.py     records a workload of such members and a transactional producer
"""
