"""Fetches: from which broker to fetch which partitions, and when.

`fetch_request_manager.py` sends a fetch through each free slot (`slot.py`), among which
`placement.py` divides the partitions. `response_handler.py` processes the responses. `standing.py`
leaves a steady stream to the native transport.
"""
