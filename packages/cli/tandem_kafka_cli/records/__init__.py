"""Reads a range of a topic, selects records, and writes them in several forms.

`selection.py` has the flags, `span.py` the offsets, and `reading.py` the loop over `poll()`. The
other modules filter, print, copy and store.
"""
