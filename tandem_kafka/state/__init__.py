"""The only mutable state that both threads use; each field has one writer, named next to it.

`partition.py` has the position of a partition and its table of states, `subscription.py` the
assignment, and `fetch_buffer.py` the fetched records. For share groups, `locks.py` has what brokers
have locked, and `locked_records.py` its way from one thread to the other.
"""
