"""Deals with what the network thread tells: errors are raised, rebalance callbacks are run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import assert_never

from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.listener import ListenerCalls, callback_error
from tandem_kafka.errors import KafkaError, WakeupError
from tandem_kafka.events.application import ApplyAssignment, CallbackCompleted
from tandem_kafka.events.background import (
    BackgroundEvent,
    ErrorEvent,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)

__all__ = ["BackgroundEvents"]

log = logging.getLogger(__name__)


class BackgroundEvents:
    """Runs on the application thread, inside poll()."""

    def __init__(
        self, core: Core, commits: Commits, collector: Collector, listener: ListenerCalls
    ) -> None:
        self._core = core
        self._commits = commits
        self._collector = collector
        self._listener = listener
        #: Taken from the queue and not dealt with: Ctrl-C may come before a listener is called.
        self._begun: BackgroundEvent | None = None

    def __len__(self) -> int:
        return len(self._core.link.background) + (self._begun is not None)

    def process(self) -> None:
        """Deal with everything there is; then raise the first error, if there was one."""
        first: Exception | None = None
        while (event := self._next()) is not None:
            try:
                self._handle(event)
            except KafkaError as error:
                if first is None:
                    first = error
                else:
                    log.exception("a further error, after the one that poll() raises")
            self._begun = None
        if first is not None:
            raise first

    def forget_rebalances(self) -> None:
        """The group has been left: no listener hears of its partitions any more."""
        self._begun = None
        self._core.link.background.drop_rebalances()

    def _next(self) -> BackgroundEvent | None:
        if self._begun is None:
            self._begun = self._core.link.background.take()
        return self._begun

    def _handle(self, event: BackgroundEvent) -> None:
        match event:
            case ErrorEvent(error):
                raise error
            case PartitionsAssigned(assignment, added):
                deadline_ms = self._core.deadline_ms(None)
                self._core.ask(ApplyAssignment(deadline_ms=deadline_ms, partitions=assignment))
                self._collector.purge()
                self._call(lambda: self._listener.assigned(added))
            case PartitionsRevoked(partitions):
                if self._commits.automatic:
                    timeout_ms = self._core.config.max_poll_interval_ms
                    self._commits.commit_quietly(self._core.deadline_ms(timeout_ms))
                self._call(lambda: self._listener.revoked(partitions))
            case PartitionsLost(partitions):
                self._call(lambda: self._listener.lost(partitions))
            case _:
                assert_never(event)

    def _call(self, callback: Callable[[], None]) -> None:
        """Run a callback and tell the network thread how it went, whatever happens."""
        error: Exception | None = None
        self._begun = None
        try:
            callback()
        except WakeupError:
            raise  # the callback itself ended well enough: it was interrupted on purpose
        except Exception as raised:
            error = raised
            raise callback_error(raised) from raised
        finally:
            self._core.link.queue.add(CallbackCompleted(error=error))
