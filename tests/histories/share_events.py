"""What members of a share group report, as lines of JSON."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

__all__ = ["LOCK_MS", "Event", "Place", "event_of", "line_of"]

#: How long the locks of the group last.
LOCK_MS: Final = 4_000

#: A partition, an offset, and what else the event tells: of "got", the delivery count and when the
#: record was locked; of "damaged", the last offset.
Place = tuple[int, ...]


class Event(NamedTuple):
    """One event of some records.

    Attributes:
        kind: "got", "accept", "release", "reject", "renew", "stored", "lost" or "damaged".
        at_ms: When, by the clock of the machine.
        places: The records.
    """

    kind: str
    at_ms: int
    places: tuple[Place, ...]


def line_of(event: Event) -> str:
    """Return the line of an event."""
    return json.dumps(event)


def event_of(line: str) -> Event:
    """Return the event of a line."""
    kind, at_ms, places = json.loads(line)
    return Event(kind, at_ms, tuple(tuple(each) for each in places))
