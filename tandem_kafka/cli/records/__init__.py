"""Reads a range of a topic, selects records, and writes them in several forms."""
