"""Reading records of a share group: batches, Arrow record batches, and one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tandem_kafka.consumer.arguments import check_arrow_usable, check_limit
from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.iteration import Follow
from tandem_kafka.consumer.share.columns import Columns, first_of
from tandem_kafka.consumer.share.handing import Fed, Given, Handing
from tandem_kafka.consumer.share.poller import SharePoller
from tandem_kafka.consumer.share.record import ShareRecord
from tandem_kafka.consumer.share.unpacking import Chunk
from tandem_kafka.errors import ConsumerClosedError, RecordDeserializationError
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.records import Undecodable
from tandem_kafka.runtime.clock import nanoseconds_of

if TYPE_CHECKING:
    import pyarrow as pa


class ShareReading:
    """Each call returns records, which count as handed out once `Handing.given` names them."""

    def __init__(
        self,
        core: Core,
        poller: SharePoller,
        handing: Handing,
        deserializers: Deserializers,
        *,
        implicit: bool,
    ) -> None:
        self._core = core
        self._poller = poller
        self._handing = handing
        self._deserializers = deserializers
        self._implicit = implicit
        self._now_ns = nanoseconds_of(core.clock)

    @guarded
    async def poll(self, timeout_ms: float | None, max_records: int | None) -> list[Given]:
        """Return records as soon as there are any; empty after the timeout, or once closed."""
        core = self._core
        held = core.enter() or await core.acquire()
        try:
            limit = check_limit(max_records, core.config.max_poll_records)
            deadline_ms = NO_DEADLINE_MS if timeout_ms is None else core.deadline_ms(timeout_ms)
            return await self._poller.poll(limit, deadline_ms, held)
        finally:
            held.release()

    @guarded
    async def poll_arrow(
        self, timeout_ms: float, max_records: int | None, form: ArrowForm
    ) -> tuple[pa.RecordBatch, Sequence[Given]]:
        """Return records as an Arrow record batch, which is empty after the timeout."""
        core = self._core
        held = core.enter() or await core.acquire()
        try:
            columns = Columns(form, implicit=self._implicit)
            check_arrow_usable(deserializing=self._deserializers.active, intercepting=False)
            limit, deadline_ms = check_limit(max_records, sys.maxsize), core.deadline_ms(timeout_ms)
            while True:
                given = await self._poller.poll(limit, deadline_ms, held)
                made, undecodable = columns.batch(given)
                if undecodable is not None:
                    # Invariant: it stays here, and is the first that the next call finds.
                    if not undecodable.row:
                        raise self._undecodable(given, undecodable)
                    given = first_of(given, undecodable.row)
                    made, _ = columns.batch(given)
                if undecodable is None:
                    count = sum(stop - start for _, start, stop in given)
                    self._poller.measured.note_dropped(count - made.num_rows)
                if made.num_rows or not given or core.clock.now_ms() >= deadline_ms:
                    return made, given
                self._handing.given = given  # all of them were dropped
        finally:
            held.release()

    def _undecodable(
        self, given: Sequence[Given], undecodable: Undecodable
    ) -> RecordDeserializationError:
        """Return the error for the first record."""
        chunk, start, _ = given[0]
        [record] = chunk.made(start, start + 1)
        reason = ValueError(undecodable.reason)
        error = self._deserializers.error_of(undecodable.origin, reason, record)
        error.advice = "poll(max_records=1) returns the record, to be rejected"
        return error

    # --- iteration -----------------------------------------------------------------------------

    async def find_feed(
        self,
        follow: Follow,
        made: Callable[[Chunk, int, int], Sequence[ShareRecord[Any, Any]]],
    ) -> bool:
        """Give the loop the feed with the next record, and wait for it; False if iteration ends."""
        given = await self._next()
        if given is None:
            return False
        self._follow(follow, self._handing.begin_feed(given, made, self._core.clock.now_ms()))
        return True

    def follow_ready(self, follow: Follow) -> bool:
        """Give the loop its feed again, if that has the next record; wait for nothing."""
        fed = self._poller.fed()
        if fed is None:
            return False
        self._follow(follow, fed)
        return True

    def _follow(self, follow: Follow, fed: Fed) -> None:
        until = self._now_ns, fed.until_ms * 1_000_000
        follow(fed.feed, self._core.engine.polls, self._poller.attention, until)

    async def _next(self) -> Given | None:
        """Return the next record; None if iteration ends."""
        idle_ms = self._core.config.consumer_timeout_ms
        try:
            found = await self.poll(None if idle_ms is None or idle_ms < 0 else idle_ms, 1)
        except ConsumerClosedError:
            return None
        return found[0] if found else None
