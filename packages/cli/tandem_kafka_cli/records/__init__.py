"""Reads a range of a topic, selects records, and writes them in several forms.

`selection.py` has the flags; the offsets and the loop over `poll()` are in `tables/span.py` and
`tables/reader.py` of tandem-kafka. The other modules filter, print, copy and store.
"""
