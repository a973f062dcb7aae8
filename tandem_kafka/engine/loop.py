"""The network thread's loop: `run_once` is `complete(transport.poll(prepare()))`.

    prepare    processes application events, collects requests from all request managers, and
               queues and sends them
    poll       the only place where this thread sleeps
    complete   delivers responses to their futures, and fails overdue events

The methods are split where the thread sleeps, so that a simulation can suspend the loop there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tandem_kafka.engine.application_event_processor import EventProcessor
from tandem_kafka.errors import ConsumerClosedError, KafkaError, NetworkThreadError
from tandem_kafka.events import application as events
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.completable import CompletableEventReaper, Completion
from tandem_kafka.events.queues import ApplicationEventQueue
from tandem_kafka.logs import LinesOf, client_logger
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.network.request import ClientResponse
from tandem_kafka.network.transport import Transport, TransportEvent
from tandem_kafka.network.troubles import OVERDUE_MS, Trouble
from tandem_kafka.request_managers.base import RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.exchange import internal_error
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.runtime import Driver

log = client_logger(__name__)

#: The longest sleep. It limits the effect of a clock that jumps.
MAX_SLEEP_MS = 5_000

#: From this size on, sending the next fetch comes before waking the application: throughput then
#: matters more than the latency of a single record.
MANY_BYTES = 65_536

#: How long the network thread runs after close. All requests that the user waits for are done by
#: then. The final requests only release resources of brokers, such as fetch sessions.
FINAL_REQUESTS_MS = 1_000


class Managers(Protocol):
    """The request managers of one kind of consumer, and what the loop needs of them."""

    @property
    def metadata(self) -> MetadataRefresher:
        """The manager of metadata."""
        ...

    @property
    def added(self) -> int:
        """How many results of fetches the application has been given."""
        ...

    def __iter__(self) -> Iterator[RequestManager]:
        """Yield managers that start work in others before those others."""
        ...

    def end_changed_fetches(self) -> None:
        """End what the transport repeats by itself, if anything has changed."""
        ...


#: In the error of a timeout, a broker that has not responded for this time is named.
SLOW_MS = 100


class NetworkLoop:
    """Runs everything that happens on the network thread."""

    def __init__(  # noqa: PLR0913, PLR0917 - each is another part of the thread
        self,
        context: ManagerContext,
        managers: Managers,
        processor: EventProcessor,
        client: NetworkClient,
        transport: Transport,
        queue: ApplicationEventQueue,
        driver: Driver,
    ) -> None:
        self._context = context
        self._lines = LinesOf(context.group.client)
        self._managers = managers
        self._poll_order: tuple[RequestManager, ...] = tuple(managers)
        self._processor = processor
        self._client = client
        self._transport = transport
        self._queue = queue
        self._driver = driver
        self._reaper = CompletableEventReaper()
        self._close_deadline_ms: int | None = None
        self._final_requests: list[Completion[ClientResponse]] = []
        self._stopped = False
        # Writer: the network thread.
        #: Everything has been failed and closed, so no thread needs to wait any longer.
        self.finished = False
        #: The error that ended the thread, if it was neither `stop` nor a `Close` event.
        self.failure: BaseException | None = None
        self._notified_version = 0
        #: Whether to poll the managers now. Otherwise they are polled at `_due_ms`.
        self._needs_poll = True
        self._due_ms = 0
        #: When the last iteration began. Writer: the network thread.
        self.turned_ms = context.clock.now_ms()

    @property
    def running(self) -> bool:
        """False once close has sent its final requests or its time is over."""
        return not self._stopped

    def run_once(self) -> None:
        """Run one iteration."""
        self.complete(self._transport.poll(self.prepare()))

    def stop(self) -> None:
        """End after this iteration without final requests: the consumer was never closed."""
        self._stopped = True
        self._transport.wakeup()

    # --- one iteration -------------------------------------------------------------------------

    def prepare(self) -> int:
        """Do all pending work, and return for how many ms the thread may sleep."""
        with self._lines:
            return self._prepare()

    def _prepare(self) -> int:
        self._take_events()
        self._needs_poll |= self._context.user_code.deliver()
        now_ms = self.turned_ms = self._context.clock.now_ms()
        closing = self._close_deadline_ms is not None
        managers_ms = self._close_managers(now_ms) if closing else self._ask_managers(now_ms)
        client_ms = self._client.prepare(now_ms)
        self._needs_poll |= client_ms == 0
        self._end_changed_fetches()
        self._context.metrics.collect(now_ms)
        self._notify_application()
        if self._queue:
            return 0
        reaper_ms = self._reaper.next_deadline_ms() - now_ms
        return max(0, min(MAX_SLEEP_MS, managers_ms, client_ms, reaper_ms))

    def complete(self, transport_events: list[TransportEvent]) -> None:
        """Process what the transport received."""
        with self._lines:
            self._complete(transport_events)

    def _complete(self, transport_events: list[TransportEvent]) -> None:
        now_ms = self._context.clock.now_ms()
        bytes_before = self._context.buffer.added_bytes
        self._needs_poll |= self._client.complete(transport_events, now_ms)
        self._hand_over_metadata_error()
        # Invariant: after the client, so that an operation with a timeout of 0 gets one attempt.
        self._needs_poll |= self._reaper.reap(now_ms, lambda: self.troubles(now_ms, SLOW_MS)) > 0
        few = self._context.buffer.added_bytes - bytes_before < MANY_BYTES
        self._notify_application(first=few)
        if self._close_deadline_ms is not None:
            self._stopped = now_ms >= self._close_deadline_ms or self._final_requests_done()

    def finish(self, failure: BaseException | None = None) -> None:
        """Fail all pending events and close the sockets; never raises.

        Args:
            failure: The error that ended the loop, if any. Every later call of the consumer
                raises a `NetworkThreadError` with this cause.
        """
        self.failure = failure
        with self._lines:
            try:
                self._close_everything(self.error())
            except BaseException as error:  # the transport may fail after a panic
                log.exception("the network thread could not release all connections")
                self.failure = self.failure or error
            finally:
                self.finished = True
                self._context.polls.request_attention()

    def requests(self) -> tuple[int, int]:
        """Return how many requests are queued and in flight; any thread may call this."""
        return self._client.queued, self._client.in_flight

    def broker_troubles(self, now_ms: int) -> list[Trouble]:
        """Say what is wrong with brokers; any thread may call this."""
        return self._client.troubles(now_ms)

    def troubles(self, now_ms: int, overdue_ms: int = OVERDUE_MS) -> list[str]:
        """Say what prevents calls from being completed; any thread may call this.

        Args:
            now_ms: The current time.
            overdue_ms: How late a response or a connection must be.
        """
        found = [trouble.text for trouble in self._client.troubles(now_ms, overdue_ms)]
        group = self._context.group
        if group.coordinator_missing:
            group_id = self._context.config.group_id
            found.append(f"the coordinator of the group {group_id!r} has not been found")
        return found

    def error(self) -> KafkaError:
        """Return the error for a call that the ended network thread cannot complete."""
        if self.failure is None:
            closed: KafkaError = ConsumerClosedError(
                "the consumer was closed before the call completed"
            )
            return closed
        error = NetworkThreadError(
            f"the network thread has failed: {self.failure!r}; create a new consumer"
        )
        error.__cause__ = self.failure
        return error

    def _close_everything(self, error: KafkaError) -> None:
        if self.failure is not None:
            log.critical(
                "the network thread has failed, and every call of the consumer raises this "
                "error; create a new consumer",
                exc_info=error,
            )
        while (event := self._queue.take()) is not None:
            event.future.fail(error)
        self._reaper.fail_all(error)
        self._client.close()
        self._transport.close()

    # --- parts ---------------------------------------------------------------------------------

    def _take_events(self) -> None:
        # A fixed number, so that a busy application cannot starve the loop.
        for _ in range(len(self._queue)):
            event = self._queue.take()
            if event is None:
                return
            self._needs_poll = True
            self._processor.process(event)
            self._reaper.watch(event)
            if isinstance(event, events.Close):
                self._close_deadline_ms = min(
                    event.deadline_ms, self._context.clock.now_ms() + FINAL_REQUESTS_MS
                )

    def _ask_managers(self, now_ms: int) -> int:
        """Poll the managers and queue their requests; return when the next poll is due, in ms.

        They are not polled in iterations that do not concern them, for example when a connection
        was opened. An application that has made room in the buffer only wakes this thread, so
        `starved` is checked as well.
        """
        if not self._needs_poll and now_ms < self._due_ms and not self._context.buffer.starved:
            return self._due_ms - now_ms
        self._needs_poll = False
        waits_ms = []
        for manager in self._poll_order:
            try:
                unsent, manager_wait_ms = manager.poll(now_ms)
            except Exception as error:  # noqa: BLE001 - a defect must not stop other managers
                self._report_defect(error)
                unsent, manager_wait_ms = (), self._context.retry_pause_ms
            for request in unsent:
                self._client.add(request)
            waits_ms.append(manager_wait_ms)
        wait_ms = min(waits_ms)
        self._due_ms = now_ms + wait_ms
        return wait_ms

    def _end_changed_fetches(self) -> None:
        try:
            self._managers.end_changed_fetches()
        except Exception as error:  # noqa: BLE001 - a defect must not end this thread
            self._report_defect(error)

    def _report_defect(self, error: Exception) -> None:
        log.error(
            "a request manager failed because of a defect in tandem-kafka, and poll() raises "
            "this error; please report it",
            exc_info=error,
        )
        self._context.background.add_error(ErrorEvent(internal_error(error)))

    def _close_managers(self, now_ms: int) -> int:
        for manager in self._managers:
            try:
                result = manager.close(now_ms)
            except Exception as error:  # noqa: BLE001 - the others have final requests too
                self._report_defect(error)
                continue
            for unsent in result.unsent:
                self._client.add(unsent)
                self._final_requests.append(unsent.future)
        if self._final_requests_done():
            return 0  # no response is due that would end the sleep
        return max(0, (self._close_deadline_ms or now_ms) - now_ms)

    def _final_requests_done(self) -> bool:
        """Tell whether all final requests are done; parked fetches do not count."""
        return all(future.done for future in self._final_requests)

    def _hand_over_metadata_error(self) -> None:
        """Fail the calls that wait for metadata with a metadata error, else raise it in poll()."""
        taken = self._managers.metadata.take_error()
        if taken is None:
            return
        error, topics = taken
        waiting = [event for event in self._reaper.watched() if _needs_metadata(event)]
        for event in waiting:
            event.future.fail(error)
        if not waiting:
            self._context.raise_in_poll(error, topics=topics)

    def _notify_application(self, *, first: bool = False) -> None:
        """Wake the application thread if anything it may wait for has changed."""
        done = self._reaper.forget_done()
        if done:
            self._context.polls.request_attention()
        news = self._managers.added + self._context.background.added
        if done or news != self._notified_version:
            self._notified_version = news
            self._driver.notify(first=first)


def _needs_metadata(event: object) -> bool:
    return isinstance(event, events.Event) and event.needs_metadata
