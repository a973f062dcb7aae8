"""The network thread's loop: `run_once` is `complete(transport.poll(prepare()))`.

    prepare    application events are processed, every request manager says what it wants to
               send, the client queues and sends
    poll       the one place where this thread sleeps
    complete   answers reach their futures, events past their deadline fail

The cut is where the thread sleeps, so that a simulation can park the loop there.
"""

from __future__ import annotations

import logging

from tandem_kafka.engine.application_event_processor import ApplicationEventProcessor
from tandem_kafka.errors import ConsumerClosedError, KafkaError, NetworkThreadError
from tandem_kafka.events import application as events
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.completable import Completion, Reaper
from tandem_kafka.events.queues import ApplicationQueue
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.network.request import ClientResponse
from tandem_kafka.network.transport import Transport, TransportEvent
from tandem_kafka.request_managers.base import RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.exchange import internal_error
from tandem_kafka.request_managers.managers import RequestManagers
from tandem_kafka.runtime import Driver

__all__ = ["MAX_SLEEP_MS", "NetworkLoop"]

log = logging.getLogger(__name__)

#: The longest sleep, so that a clock that jumps does no lasting harm.
MAX_SLEEP_MS = 5_000

#: From here on asking for more comes before handing over what came: throughput counts, not the
#: time of a single record.
MANY_BYTES = 65_536

#: How long the network thread goes on after close: everything that the user waits for has been
#: waited for before, what is left are courtesies (ending fetch sessions).
FINAL_REQUESTS_MS = 1_000


class NetworkLoop:
    """Everything that happens on the network thread starts here."""

    def __init__(
        self,
        context: ManagerContext,
        managers: RequestManagers,
        client: NetworkClient,
        transport: Transport,
        queue: ApplicationQueue,
        driver: Driver,
    ) -> None:
        self._context = context
        self._managers = managers
        self._poll_order: tuple[RequestManager, ...] = tuple(managers)
        self._processor = ApplicationEventProcessor(context, managers)
        self._client = client
        self._transport = transport
        self._queue = queue
        self._driver = driver
        self._reaper = Reaper()
        self._close_deadline_ms: int | None = None
        self._final_requests: list[Completion[ClientResponse]] = []
        self._stopped = False
        #: Everything has been failed and closed: nobody needs to wait any longer.
        self.finished = False
        #: What ended the thread, if it was not `stop` or a `Close` event.
        self.failure: BaseException | None = None
        self._notified_version = 0
        #: Managers are asked if one was told something, or at the time that one has named.
        self._needs_poll = True
        self._due_ms = 0

    @property
    def running(self) -> bool:
        """False once close has nothing more to send, or no more time."""
        return not self._stopped

    def run_once(self) -> None:
        """One turn."""
        self.complete(self._transport.poll(self.prepare()))

    def stop(self) -> None:
        """End after this turn, without a word to anyone (the consumer was dropped unclosed)."""
        self._stopped = True
        self._transport.wakeup()

    # --- the turn ------------------------------------------------------------------------------

    def prepare(self) -> int:
        """Do all there is to do before the thread may sleep; returns for how long, in ms."""
        self._take_events()
        self._needs_poll |= self._context.user_code.deliver()
        now_ms = self._context.clock.now_ms()
        closing = self._close_deadline_ms is not None
        managers_ms = self._close_managers(now_ms) if closing else self._ask_managers(now_ms)
        client_ms = self._client.prepare(now_ms)
        self._needs_poll |= client_ms == 0
        self._notify_application()
        if self._queue:
            return 0
        reaper_ms = self._reaper.next_deadline_ms() - now_ms
        return max(0, min(MAX_SLEEP_MS, managers_ms, client_ms, reaper_ms))

    def complete(self, transport_events: list[TransportEvent]) -> None:
        """Deal with what came in while the thread slept."""
        now_ms = self._context.clock.now_ms()
        bytes_before = self._context.buffer.added_bytes
        self._needs_poll |= self._client.complete(transport_events, now_ms)
        self._hand_over_metadata_error()
        # After the client's turn: an operation with no time at all has had its one attempt.
        self._needs_poll |= self._reaper.reap(now_ms) > 0
        few = self._context.buffer.added_bytes - bytes_before < MANY_BYTES
        self._notify_application(first=few)
        if self._close_deadline_ms is not None:
            self._stopped = now_ms >= self._close_deadline_ms or self._final_requests_done()

    def finish(self, failure: BaseException | None = None) -> None:
        """Fail what is still open and close the sockets; raises nothing.

        Args:
            failure: What ended the loop, if it did not end by itself. Every later call of the
                consumer raises a `NetworkThreadError` with this cause.
        """
        self.failure = failure
        try:
            self._close_everything(self.error())
        except BaseException as error:  # the transport, after a panic in it
            log.exception("the network thread could not close everything")
            self.failure = self.failure or error
        finally:
            self.finished = True

    def error(self) -> KafkaError:
        """Return what a call gets that the ended network thread cannot serve."""
        if self.failure is None:
            closed: KafkaError = ConsumerClosedError(
                "the consumer was closed before this could be completed"
            )
            return closed
        error = NetworkThreadError(
            f"the network thread has ended: {self.failure!r}; make a new consumer"
        )
        error.__cause__ = self.failure
        return error

    def _close_everything(self, error: KafkaError) -> None:
        if self.failure is not None:
            log.critical("the network thread has ended; every call raises this", exc_info=error)
        while (event := self._queue.take()) is not None:
            event.future.fail(error)
        self._reaper.fail_all(error)
        self._client.close()
        self._transport.close()

    # --- parts ---------------------------------------------------------------------------------

    def _take_events(self) -> None:
        # A bounded number: an event added meanwhile has its turn next time round.
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
        """Have managers send what they want to; returns how long none of them needs a turn.

        Not in a turn that concerns none of them: a connection was opened, say. Who has made room in
        the buffer only wakes this thread.
        """
        if not self._needs_poll and now_ms < self._due_ms and not self._context.buffer.starved:
            return self._due_ms - now_ms
        self._needs_poll = False
        waits_ms = []
        for manager in self._poll_order:
            try:
                unsent, manager_wait_ms = manager.poll(now_ms)
            except Exception as error:  # noqa: BLE001 - one's defect must not stop the others
                self._report_defect(error)
                unsent, manager_wait_ms = (), self._context.retry_pause_ms
            for request in unsent:
                self._client.add(request, now_ms)
            waits_ms.append(manager_wait_ms)
        wait_ms = min(waits_ms)
        self._due_ms = now_ms + wait_ms
        return wait_ms

    def _report_defect(self, error: Exception) -> None:
        log.error("a request manager failed; poll() raises this", exc_info=error)
        self._context.background.add_error(ErrorEvent(internal_error(error)))

    def _close_managers(self, now_ms: int) -> int:
        for manager in self._managers:
            try:
                result = manager.close(now_ms)
            except Exception as error:  # noqa: BLE001 - the others have something to say too
                self._report_defect(error)
                continue
            for unsent in result.unsent:
                self._client.add(unsent, now_ms)
                self._final_requests.append(unsent.future)
        if self._final_requests_done():
            return 0  # nothing will arrive that would end the sleep
        return max(0, (self._close_deadline_ms or now_ms) - now_ms)

    def _final_requests_done(self) -> bool:
        """Tell whether what close had to send is answered; a parked fetch is not waited for."""
        return all(future.done for future in self._final_requests)

    def _hand_over_metadata_error(self) -> None:
        """Give an error of the metadata to the call that waits for it, else to poll()."""
        error = self._managers.metadata.take_error()
        if error is None:
            return
        waiting = [event for event in self._reaper.watched() if _needs_metadata(event)]
        for event in waiting:
            event.future.fail(error)
        if not waiting:
            self._context.raise_in_poll(error)

    def _notify_application(self, *, first: bool = False) -> None:
        """Wake the application thread if anything it may wait for has changed."""
        done = self._reaper.forget_done()
        news = self._context.buffer.added + self._context.background.added
        if done or news != self._notified_version:
            self._notified_version = news
            self._driver.notify(first=first)


def _needs_metadata(event: object) -> bool:
    return isinstance(event, events.Event) and event.needs_metadata
