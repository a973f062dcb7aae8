"""Sends acknowledgements, and tells what became of them."""

from __future__ import annotations

from collections import deque

from tandem_kafka.consumer.concurrent_calls import WithCore, shared
from tandem_kafka.consumer.core import Core
from tandem_kafka.errors import KafkaError
from tandem_kafka.events.application import CommitAcknowledgements
from tandem_kafka.events.completable import Completion
from tandem_kafka.types import TopicPartition

#: What `commit()` returns.
Outcome = dict[TopicPartition, KafkaError | None]


class ShareCommits(WithCore):
    """Each outcome is told once."""

    def __init__(self, core: Core) -> None:
        self._core = core
        #: Commits that an interrupt or `wakeup()` has ended: the next one tells their outcome.
        self._untold: deque[Completion[Outcome]] = deque()

    @shared
    async def commit(self, timeout_ms: float | None) -> Outcome:
        """Send all acknowledgements, and return what became of them."""
        core = self._core
        deadline_ms = core.deadline_ms(timeout_ms)
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
