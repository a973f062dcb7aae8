"""Partition assignors: pure functions from members and topics to an assignment."""
