"""How far a read or a landing has come."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """How far a read or a landing has come.

    Attributes:
        records: The records so far.
        bytes: The size of their columns in bytes.
        share: The share of the offsets that is read, from 0 to 1. Of a landing, the share of the
            records: 1 if none is left.
    """

    records: int
    bytes: int
    share: float
