"""Fetches: from which broker to fetch which partitions, and when."""
