"""The methods of a share consumer as coroutines, written once for threads and for asyncio."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tandem_kafka.config import Config
from tandem_kafka.consumer.arguments import (
    check_arrow_usable,
    check_limit,
    check_topics,
    check_wait,
)
from tandem_kafka.consumer.arrow_form import ArrowForm
from tandem_kafka.consumer.closing import (
    DEFAULT_TIMEOUT_MS,
    REASON,
    Hook,
    end_network_thread,
    ended_with_interpreter,
)
from tandem_kafka.consumer.concurrent_calls import WithCore, shared, steering
from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.health import Health
from tandem_kafka.consumer.network_thread_options import for_network_thread
from tandem_kafka.engine.assembly import assemble
from tandem_kafka.engine.share_event_processor import share_managers
from tandem_kafka.errors import (
    ConsumerClosedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
    RecordDeserializationError,
)
from tandem_kafka.events.application import (
    Acknowledge,
    Bootstrap,
    CommitAcknowledgements,
    Event,
    LeaveGroup,
    Poll,
    Subscribe,
    Unsubscribe,
)
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.completable import NO_DEADLINE_MS, Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.metrics import ReaderMeasurements
from tandem_kafka.records import Undecodable
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Callers, Held
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.share.columns import Columns, acknowledge_rows, first_of
from tandem_kafka.share.handing import Given, Handing
from tandem_kafka.share.health import share_health
from tandem_kafka.share.options import How
from tandem_kafka.share.unpacking import Unpacker
from tandem_kafka.shared.locked_records import LockedRecords
from tandem_kafka.shared.locks import (
    AcknowledgeType,
)
from tandem_kafka.types import LeaveOperation, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

F = TypeVar("F", bound=Callable[..., Any])

log = client_logger(__name__)

#: What `commit()` returns.
Outcome = dict[TopicPartition, KafkaError | None]
#: The code of the methods that return records.
_RETURNING: Final[set[CodeType]] = set()
_NOBODY: Final[tuple[Hashable, int, object]] = (None, 0, None)
#: How often a waiting call records that the application is alive.
_ALIVE_MS: Final = 1_000


def returning(method: F) -> F:
    """Mark a method that returns records. While it is on a stack, no other thread gets any."""
    _RETURNING.add(method.__code__)
    return method


class ShareMethods(WithCore):
    """The parts of a share consumer, with a running network thread.

    Args:
        config: The options.
        runtime: Clock, driver and randomness.
        callers: Threads or tasks, which decides how calls wait.
        how: How records are acknowledged.
        transport: A transport for the network thread; None for sockets.
    """

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        callers: Callers,
        how: How,
        transport: Any = None,
    ) -> None:
        self.records = records = LockedRecords(runtime.clock)
        records.renew_ms = how.renew_ms
        self.implicit = how.implicit
        self._deserializers = deserializers = Deserializers(config)
        self._hooks: list[Hook] = [deserializers, callers]
        build = share_managers(records)
        try:
            engine = assemble(for_network_thread(config), runtime, transport, build)
            records.notice = lambda: engine.queue.add(Acknowledge())
            self._core = core = Core(config, runtime, callers, engine)
            core.start_network_thread()
        except BaseException:
            self._close_hooks()
            raise
        unpacker = Unpacker(config, deserializers)
        self.handing = Handing(records, unpacker, implicit=how.implicit)
        self._measured = ReaderMeasurements(engine.metrics)
        self._event: Poll | None = None
        #: Commits that an interrupt or `wakeup()` has ended: the next one tells their outcome.
        self._untold: deque[Completion[Outcome]] = deque()
        #: The caller that got the last record, its process, and `Polls.attention` when it looked at
        #: everything.
        self._last = _NOBODY

    @property
    def core(self) -> Core:
        """The lock of the reader, and the connection to the network thread."""
        return self._core

    async def begin(self, topics: Sequence[str]) -> None:
        """Wait for the first contact with the cluster, and subscribe.

        Raises:
            KafkaError: Either failed. The network thread has ended.
        """
        config = self._core.config
        try:
            if config.bootstrap_timeout_ms and config.api_version is None:
                deadline_ms = self._core.deadline_ms(config.bootstrap_timeout_ms)
                await self._core.ask(Bootstrap(deadline_ms=deadline_ms))
            if topics:
                await self.subscribe(topics)
        except BaseException:
            await self._core.callers.shield(self.close(timeout_ms=0, clean=False))
            raise

    @shared
    async def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics in place of those before."""
        deadline_ms = self._core.deadline_ms(None)
        names = check_topics(topics)
        await self._core.ask(Subscribe(deadline_ms=deadline_ms, topics=names))

    @shared
    async def unsubscribe(self) -> None:
        """End the subscription, release what was not handed out, and leave the group."""
        deadline_ms = self._core.deadline_ms(None)
        await self._core.ask(Unsubscribe(deadline_ms=deadline_ms))
        await self._core.ask(self._leaving(deadline_ms))

    @shared
    def renew_locks(self, max_processing_ms: float) -> None:
        """Renew the locks of records that the application works on, for this time each."""
        check_wait("max_processing_ms", max_processing_ms)
        self.records.renew_ms = max_processing_ms
        self._core.engine.queue.add(Acknowledge())  # the network thread looks when it is due

    @steering
    async def release_all(self) -> None:
        """Release all records that are not acknowledged, and acquire none until the next poll()."""
        self.handing.release_all()

    def metrics(self, *, raw: bool) -> Any:
        """Return the metrics, None if they are disabled."""
        measured = self._core.engine.metrics
        return measured.raw() if raw else measured.values()

    def health(self) -> Health:
        """Return what the consumer does, and what is wrong."""
        return share_health(self._core, self.records)

    def subscription(self) -> set[str]:
        """Return the topics."""
        self._core.check_readable()
        return set(self._core.engine.subscription.topics)

    @guarded
    async def poll(self, timeout_ms: float | None, max_records: int | None) -> list[Given]:
        """Return records as soon as there are any; empty after the timeout, or once closed."""
        core = self._core
        held = core.enter() or await core.acquire()
        try:
            limit = core.config.max_poll_records
            if max_records is not None:
                limit = check_limit(max_records, limit)
            endless = timeout_ms is None or timeout_ms < 0
            deadline_ms = NO_DEADLINE_MS if endless else core.deadline_ms(timeout_ms)
            return await self._poll(limit, deadline_ms, held)
        finally:
            held.release()

    async def _poll(self, limit: int, deadline_ms: int, held: Held) -> list[Given]:
        core = self._core
        # Invariant: a nested call would unpack, and hand out, what this one has begun with.
        if core.reader is not None and core.outer_reader is not None:
            msg = (
                "poll() was called inside of another poll(), by a deserializer or a signal "
                "handler; make the call after that poll() has returned"
            )
            raise IllegalStateError(msg)
        try:
            core.reader = core.callers.current()
            if self._last[0] != core.reader:
                # Invariant: replaced before the search, so that an iterating thread polls as well.
                self._last = _NOBODY
                core.check_no_other(self._returns)
            now_ms, polls = core.clock.now_ms(), core.engine.polls
            polls.handler_ms = now_ms - polls.polled_ms if polls.polled_ms else 0
            self._measured.poll_begins(now_ms)
            self.handing.settle(now_ms)
            return await self._next(limit, deadline_ms, held)
        finally:
            core.reader = None

    @guarded
    async def poll_arrow(
        self, timeout_ms: float, max_records: int | None, form: ArrowForm
    ) -> tuple[pa.RecordBatch, Sequence[Given]]:
        """Return records as an Arrow record batch, which is empty after the timeout."""
        core = self._core
        held = core.enter() or await core.acquire()
        try:
            columns = Columns(form, implicit=self.implicit)
            check_arrow_usable(deserializing=self._deserializers.active, intercepting=False)
            limit, deadline_ms = check_limit(max_records, sys.maxsize), core.deadline_ms(timeout_ms)
            while True:
                given = await self._poll(limit, deadline_ms, held)
                made, undecodable = columns.batch(given)
                if undecodable is not None:
                    # Invariant: it stays here, and is the first that the next call finds.
                    if not undecodable.row:
                        raise self._undecodable(given, undecodable)
                    given = first_of(given, undecodable.row)
                    made, _ = columns.batch(given)
                if undecodable is None:
                    count = sum(stop - start for _, start, stop in given)
                    self._measured.note_dropped(count - made.num_rows)
                if made.num_rows or not given or core.clock.now_ms() >= deadline_ms:
                    return made, given
                self.handing.given = given  # all of them were dropped
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

    @shared
    def acknowledge(self, batch: Any, how: str) -> None:
        """Acknowledge each row of a record batch or table."""
        known = ("accept", "release", "reject", "renew")
        if how not in known:
            msg = f"how must be one of {', '.join(known)}, got {how!r}"
            raise InvalidArgumentError(msg)
        acknowledge_rows(self.records, batch, AcknowledgeType[how.upper()])

    async def next(self) -> Given | None:
        """Return the next record; None if iteration ends."""
        try:
            found = await self.poll(self._core.config.consumer_timeout_ms, 1)
        except ConsumerClosedError:
            return None
        return found[0] if found else None

    def following(self) -> Given | None:
        """Return the next record if it is at hand, and nothing else is to be done."""
        core = self._core
        polls = core.engine.polls
        # Invariant: without a lock. A thread that polls has replaced this, or finds the caller.
        if self._last != (core.callers.current(), PROCESS.pid, polls.attention) or core.closing:
            return None
        now_ms = polls.polled_ms = core.clock.now_ms()
        return self.handing.following(now_ms)

    def _returns(self, frame: FrameType) -> bool:
        """Tell whether a stack frame returns records to the application."""
        owner = frame.f_locals.get("self") if frame.f_code in _RETURNING else None
        return getattr(owner, "_methods", None) is self

    async def _next(self, limit: int, deadline_ms: int, held: Held) -> list[Given]:
        core, records = self._core, self.records
        polls, waited = core.engine.polls, False
        try:
            while True:
                attention = polls.attention
                await self._look(held)
                if core.closed:
                    return []
                now_ms = polls.polled_ms = core.clock.now_ms()
                if polls.event_needed:
                    self._send_poll(now_ms)
                waits = now_ms < deadline_ms
                found = self.handing.next(limit, now_ms, waits=waits)
                self._last = core.reader, PROCESS.pid, attention
                if found or not waits:
                    return found
                waited = True
                await core.callers.wait(
                    lambda attention=attention: (  # type: ignore[misc]
                        not records.empty or polls.attention is not attention
                    ),
                    min(deadline_ms, now_ms + _ALIVE_MS),
                )
                self._measured.idle_ms += core.clock.now_ms() - now_ms
        finally:
            if waited:  # it may ask no more; one that does not wait asks again soon
                records.end_waiting()

    async def _look(self, held: Held) -> None:
        """Let other callers in, and raise what the network thread reports."""
        core = self._core
        if core.visited:
            await core.give_way(held)
        core.raise_if_woken()
        background = core.engine.background
        while (event := background.take()) is not None:
            wanted = core.engine.subscription.topics_of_interest()
            if isinstance(event, ErrorEvent) and event.concerns(wanted):
                raise event.error
        if core.engine.group.fatal is not None:
            raise core.engine.group.fatal.with_traceback(None)
        if core.engine.loop.finished and not core.closing:
            raise core.engine.loop.error()

    def _send_poll(self, now_ms: int) -> None:
        if self._event is None or self._event.future.done:
            event = Poll(deadline_ms=now_ms + self._core.config.default_api_timeout_ms)
            self._core.engine.queue.add(event)
            self._event = event

    @shared
    async def commit(self, timeout_ms: float | None) -> Outcome:
        """Send all acknowledgements, and return what became of them."""
        core = self._core
        deadline_ms = core.deadline_ms(timeout_ms)
        self._flush()
        event = CommitAcknowledgements(deadline_ms=deadline_ms)
        try:
            found = await core.ask(event, interruptible=True)
        except BaseException:
            self._untold.append(event.future)
            raise
        # Invariant: commits end in order, so those before this one have ended.
        while self._untold:
            before = self._untold.popleft()
            if before.done and before.error is None:
                for tp, error in before.result().items():
                    found[tp] = error or found.get(tp)
        return found

    def tell_again(self, outcome: Outcome) -> None:
        """Let the next commit() also tell an outcome that the application did not get."""
        told = Completion[Outcome]()
        told.complete(outcome)
        self._untold.append(told)

    @guarded
    def _flush(self) -> None:
        """Accept what the reader is done with, unless it is at work."""
        core = self._core
        held = core.enter()
        if held is not None:
            try:
                self.handing.flush()
            finally:
                held.release()

    @guarded
    async def close(self, *, timeout_ms: float | None, clean: bool) -> None:
        """Send all acknowledgements, release all other records, and leave the group.

        Args:
            timeout_ms: Time limit in milliseconds.
            clean: Whether the records that were handed out last were handled.
        """
        core = self._core
        core.check_process()
        core.callers.check()
        if core.closed or ended_with_interpreter(core):
            return
        deadline_ms = core.deadline_ms(DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms)
        core.closing = True
        visit = await core.visit(deadline_ms)
        try:
            if core.closed:
                return
            if visit is not None:
                if not clean:
                    self.handing.drop_last()
                self.handing.settle(core.clock.now_ms())
                self.handing.flush()
            try:
                event = CommitAcknowledgements(deadline_ms=deadline_ms, closing=True)
                await self._attempt(event)
                await self._attempt(self._leaving(deadline_ms))
            finally:
                core.closed = True
                await end_network_thread(core, deadline_ms)
                self._close_hooks()
        finally:
            if visit is not None:
                visit.release()

    def _close_hooks(self) -> None:
        for hook in self._hooks:
            hook.close()

    @staticmethod
    def _leaving(deadline_ms: int) -> LeaveGroup:
        return LeaveGroup(deadline_ms=deadline_ms, reason=REASON, leave=LeaveOperation.DEFAULT)

    async def _attempt(self, event: Event[Any]) -> None:
        try:
            await self._core.ask(event)
        except KafkaTimeoutError as error:
            log.warning("a step of close() timed out: %s", error, client=self._core.client)
