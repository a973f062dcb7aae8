"""What became of each record of a share group: who got it, how often, and why again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final, Protocol

from tests.histories.ledger import Reads
from tests.histories.share_events import Event, line_of

__all__ = ["LIMIT", "Reporting", "ShareLedger"]

#: How often the group delivers a record.
LIMIT: Final = 10


class Reporting(Protocol):
    """A member that reports events."""

    name: str
    events: list[Event]


class ShareLedger(Reads):
    """The ledger of one share group, with all its past members."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.members: list[Reporting] = []

    def _events(self) -> Iterator[tuple[Reporting, Event]]:
        for member in self.members:
            for event in tuple(member.events):
                yield member, event

    def _places(self, *kinds: str) -> Iterator[tuple[int, int]]:
        """Return the records of all events of these kinds."""
        for _, event in self._events():
            if event.kind in kinds:
                yield from (place[:2] for place in event.places)  # type: ignore[misc]

    def lines(self) -> str:
        """Return all events in their order, with their members."""
        events = sorted(self._events(), key=lambda each: each[1].at_ms)
        return "".join(f"{member.name}: {line_of(event)}\n" for member, event in events)

    def anomalies(self) -> list[str]:
        """Return what no fault explains."""
        stored: dict[tuple[int, ...], tuple[int, str]] = {}
        for member, event in self._events():
            if event.kind == "stored":
                for place in event.places:
                    stored.setdefault(place, (event.at_ms, member.name))
        found = []
        for member, event in self._events():
            for number, offset, count, locked_ms in event.places if event.kind == "got" else ():
                at_ms, who = stored.get((number, offset), (locked_ms, ""))
                if at_ms < locked_ms:
                    found.append(
                        f"{number}-{offset} was stored for {who} at {at_ms}, and locked for "
                        f"{member.name} at {locked_ms}"
                    )
                if count > LIMIT:
                    found.append(f"{number}-{offset} was delivered {count} times")
        return found

    def undone(self, sent: int) -> list[tuple[int, int]]:
        """Return the records that nobody has accepted or rejected, and that have attempts left.

        Args:
            sent: How many records of each partition are written.
        """
        done = self._decided() | self._damaged()
        for _, event in self._events():
            if event.kind == "got":
                done |= {(number, at) for number, at, count, _ in event.places if count == LIMIT}
        return [
            (number, at)
            for number in range(self.partitions)
            for at in range(sent)
            if (number, at) not in done
        ]

    def backlog(self, undone: Sequence[tuple[int, int]], now_s: float) -> str:
        """Return where records are left, and whether that partition stands still.

        Args:
            undone: The records that are not done, in order.
            now_s: The time.
        """
        lines = []
        for number, left in groupby(undone, key=itemgetter(0)):
            offsets = [offset for _, offset in left]
            decided = (
                event.at_ms
                for _, event in self._events()
                if event.kind in {"accept", "reject"}
                and any(place[0] == number for place in event.places)
            )
            last_ms = max(decided, default=None)
            last = "never" if last_ms is None else f"{now_s - last_ms / 1_000:.1f} s ago"
            lines.append(
                f"{len(offsets):,} of partition {number} from offset {offsets[0]} on, where a "
                f"record was last accepted or rejected {last}"
            )
        return "; ".join(lines)

    def _decided(self) -> set[tuple[int, int]]:
        """Return the records that somebody has accepted or rejected while they were locked."""
        done: set[tuple[int, int]] = set()
        for member in self.members:
            own: set[tuple[int, int]] = set()
            for event in tuple(member.events):
                places = {(number, offset) for number, offset, *_ in event.places}
                if event.kind in {"accept", "reject"}:
                    own |= places
                elif event.kind == "lost":
                    own -= places
            done |= own
        return done

    def _damaged(self) -> set[tuple[int, int]]:
        """Return the records of damaged batches, which the consumer may have rejected."""
        return {
            (number, at)
            for _, event in self._events()
            if event.kind == "damaged"
            for number, first, last in event.places
            for at in range(first, last + 1)
        }

    def reads(self) -> Iterator[tuple[float, int, int]]:
        """Return the time, the partition and the offset of each record that was handed out."""
        for _, event in self._events():
            if event.kind == "got":
                yield from ((event.at_ms / 1_000, place[0], place[1]) for place in event.places)

    def account(self) -> str:
        """Return how often records were handed out, and why again."""
        kinds = Counter[str]()
        for _, event in self._events():
            kinds[event.kind] += len(event.places)
        again = self._reasons()
        records = len(set(self._places("got")))
        reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(again.items()))
        return (
            f"{records:,} records were handed out {kinds['got']:,} times; {kinds['accept']:,} "
            f"accepted, {kinds['release']:,} released, {kinds['reject']:,} rejected, "
            f"{kinds['stored']:,} known to be stored; {len(self._damaged()):,} were damaged, and "
            f"{len(self._damaged() - self._decided()):,} of them given up; again: "
            f"{reasons or 'none'}"
        )

    def _reasons(self) -> Counter[str]:
        """Return why records were handed out again, by what their member did with them before."""
        history: dict[tuple[int, ...], list[tuple[int, str]]] = defaultdict(list)
        for _, event in self._events():
            for place in event.places if event.kind != "damaged" else ():
                history[place[:2]].append((event.at_ms, event.kind))
        return Counter(
            _WHY[before]
            for each in history.values()
            for (_, before), (_, kind) in pairwise(sorted(each, key=itemgetter(0)))
            if kind == "got"
        )


_WHY: Final = {
    "got": "whose member did nothing with them",
    "release": "released",
    "accept": "accepted, not known to be stored",
    "reject": "rejected, not known to be stored",
    "renew": "renewed",
    "lost": "whose lock was lost",
    "stored": "stored, locked before",
}
