"""The loop inside `poll()` of a share consumer, which iteration uses too."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.reading.poller import Polling, nested_error
from tandem_kafka.consumer.reporters import Reporters
from tandem_kafka.consumer.share.handing import Fed, Given, Handing
from tandem_kafka.errors import KafkaError
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.runtime.callers import Held
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.state.locked_records import LockedRecords

_NOBODY: Final[tuple[Hashable, int, object]] = (None, 0, None)


class SharePoller(Polling):
    """Takes locked records, or waits for them."""

    def __init__(
        self, core: Core, reporters: Reporters, records: LockedRecords, handing: Handing
    ) -> None:
        super().__init__(core, reporters)
        self._records = records
        self._handing = handing
        #: The caller that got the last record, its process, and `Polls.attention` when it looked at
        #: everything.
        self._last = _NOBODY

    async def poll(self, limit: int, deadline_ms: int, held: Held) -> list[Given]:
        """Return records as soon as there are any; empty at the deadline or once closed."""
        core = self._core
        # Invariant: a nested call would unpack, and hand out, what this one has begun with.
        if core.reader is not None and core.outer_reader is not None:
            raise nested_error()
        try:
            core.reader = core.callers.current()
            if self._last[0] != core.reader:
                # Invariant: replaced before the search, so that an iterating thread polls as well.
                self._last = _NOBODY
                core.check_no_other(self.returns)
            now_ms = core.clock.now_ms()
            self.begin(now_ms)
            self._handing.settle(now_ms)
            return await self._next(limit, deadline_ms, held)
        except KafkaError as error:
            self.note_error(error)
            raise
        finally:
            core.reader = None

    async def _next(self, limit: int, deadline_ms: int, held: Held) -> list[Given]:
        core, records = self._core, self._records
        polls, waited = core.engine.polls, False
        try:
            while True:
                attention = polls.attention
                await self.look(held)
                if core.closed:
                    return []
                now_ms = polls.polled_ms = core.clock.now_ms()
                self.tell(now_ms)
                waits = now_ms < deadline_ms
                found = self._handing.next(limit, now_ms, waits=waits)
                self._last = core.reader, PROCESS.pid, attention
                if found or not waits:
                    return found
                waited = True
                await core.callers.wait(
                    lambda attention=attention: (  # type: ignore[misc]
                        not records.empty or polls.attention is not attention
                    ),
                    min(deadline_ms, now_ms + self.interval_ms),
                )
                self.measured.idle_ms += core.clock.now_ms() - now_ms
        finally:
            if waited:  # it may ask no more; one that does not wait asks again soon
                records.end_waiting()

    async def _process_events(self) -> None:
        engine = self._core.engine
        while (event := engine.background.take()) is not None:
            if isinstance(event, ErrorEvent) and event.concerns(engine.subscription):
                raise event.error

    @property
    def attention(self) -> object:
        """`Polls.attention` when the last call looked at everything."""
        return self._last[2]

    def fed(self) -> Fed | None:
        """Return what has the next record for iteration, if nothing else is to be done."""
        core = self._core
        polls = core.engine.polls
        # Invariant: without a lock. A thread that polls has replaced this, or finds the caller.
        if self._last != (core.callers.current(), PROCESS.pid, polls.attention) or core.closing:
            return None
        now_ms = polls.polled_ms = core.clock.now_ms()
        return self._handing.fed(now_ms)
