"""The network thread: its loop, the processing of events, and the application's handle.

`loop.py` is one iteration of the thread. `assembly.py` builds what it runs, from `request_managers`
and `network`; `handle.py` is all that the application thread sees of it.
"""
