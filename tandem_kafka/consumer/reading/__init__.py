"""How records reach the application.

`poller.py` is the loop of `poll()`. `fetch_collector.py` takes records from the fetch buffer, and
`publication.py` publishes the positions. `reading.py` makes of it what `poll()`, `poll_arrow()`
(`arrow_form.py`) and a `for` loop (`iteration.py`) return.
"""
