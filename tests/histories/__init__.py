"""Histories of what producers, consumers and committers did, and the anomalies in them.

operations.py   the operations, and their lines of JSON
anomalies.py    the checks, one for each kind of anomaly
recorder.py     records a workload of several clients
"""
