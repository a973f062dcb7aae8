"""Sends acknowledgements, and tells what became of them."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from tandem_kafka.consumer.concurrent_calls import WithCore, any_thread
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

    @any_thread
    async def commit(self, timeout_ms: float | None) -> Outcome:
        """Send all acknowledgements, and return what became of them."""
        core = self._core
        deadline_ms = core.deadline_ms(timeout_ms)
        event = CommitAcknowledgements(deadline_ms=deadline_ms)
        try:
            found = await core.ask(event, interruptible=True)
        except BaseException:
            self._untold.append(event.future)
            self._merge_untold()
            raise
        # Invariant: commits end in order, so those before this one have ended.
        while self._untold:
            before = self._untold.popleft()
            if before.done and before.error is None:
                _add(before.result(), found)
        return found

    def _merge_untold(self) -> None:
        """Keep one outcome for all commits that have ended, however many were interrupted."""
        ended = [each for each in tuple(self._untold) if each.done]
        last = next((each for each in reversed(ended) if each.error is None), None)
        for each in ended:
            if last is not None and each is not last and each.error is None:
                _add(each.result(), last.result())
            if each is not last:
                with suppress(ValueError):  # another thread has told it
                    self._untold.remove(each)

    def tell_again(self, outcome: Outcome) -> None:
        """Let the next commit() also tell an outcome that the application did not get."""
        told = Completion[Outcome]()
        told.complete(outcome)
        self._untold.append(told)


def _add(outcome: Outcome, to: Outcome) -> None:
    """Add an outcome; an error stays, whatever else became of its partition."""
    for tp, error in outcome.items():
        to[tp] = error or to.get(tp)
