"""Share groups (KIP-932) on the network thread.

`membership.py` keeps the member in the group and knows its partitions. `session.py` is the session
with one broker: which partitions it fetches, and which acknowledgements go with the next request.
`consume_request_manager.py` sends the requests of all sessions, and `response_handler.py` handles
the answers. `lock_keeper.py` decides which locks are acknowledged, renewed and released.
`fetch_limits.py` says how many records are acquired, and `outcomes.py` what became of
acknowledgements.
"""
