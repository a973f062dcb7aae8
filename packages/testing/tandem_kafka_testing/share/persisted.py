"""The durable state of a share partition, as the share coordinator keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tandem_kafka_testing.share.in_flight import Delivery, InFlightBatch, RecordState, Span

#: Where the state of a range has changed: its offsets, the state and the delivery count.
Change = tuple[Span, RecordState, int]


class PersistedState:
    """What survives a change of the leader: acquisitions do not, and what nobody wrote is unknown.

    Attributes:
        start_offset: The first offset that may be offered; None before the first write.
    """

    def __init__(self, start_offset: int | None = None) -> None:
        self.start_offset = start_offset
        self._records: dict[int, tuple[RecordState, int]] = {}

    def write(self, start_offset: int, changes: Iterable[Change]) -> None:
        """Write the changes, and forget what is before the start offset."""
        for span, state, count in changes:
            for offset in range(span.first, span.last + 1):
                self._records[offset] = state, count
        if self.start_offset is None or start_offset > self.start_offset:
            for offset in [offset for offset in self._records if offset < start_offset]:
                del self._records[offset]
        self.start_offset = start_offset

    @property
    def done(self) -> int:
        """Number of the records from the start offset on that are acknowledged or archived."""
        return sum(state.terminal for state, _ in self._records.values())

    def batches(self, start_offset: int) -> list[InFlightBatch]:
        """Return the batches that a new leader continues with.

        A range between them that nobody wrote is offered again, as if for the first time.
        """
        found: list[InFlightBatch] = []
        expected = start_offset
        for span, state, count in self._ranges():
            if span.first > expected:
                found.append(InFlightBatch(expected, span.first - 1, Delivery()))
            found.append(InFlightBatch(*span, Delivery(state, count)))
            expected = span.last + 1
        return found

    def _ranges(self) -> Iterator[Change]:
        first = last = -2
        same: tuple[RecordState, int] | None = None
        for offset in sorted(self._records):
            if same is not None and (offset != last + 1 or self._records[offset] != same):
                yield (Span(first, last), *same)
                same = None
            if same is None:
                first, same = offset, self._records[offset]
            last = offset
        if same is not None:
            yield (Span(first, last), *same)
