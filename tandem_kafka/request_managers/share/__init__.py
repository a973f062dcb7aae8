"""Share groups (KIP-932) on the network thread.

`membership.py` keeps the member in the group and knows its partitions. `session.py` is the session
with one broker: which partitions it fetches, and which acknowledgements go with the next request.
`lock_manager.py` drives the sessions: it acquires records, acknowledges and renews them.
`fetch_limits.py` says how many it acquires, and `outcomes.py` what became of acknowledgements.
"""
