"""Share groups (KIP-932) on the application thread: `ShareConsumer`.

`record.py` is what the application gets, `unpacking.py` makes it of what brokers have locked, and
`handing.py` decides what is handed out and when it counts as handled. `columns.py` does both for
record batches.
"""
