"""What `commit_async()` returns: kafka-python's future, which ends without a further call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.future import Future

from tandem_kafka.events.completable import Completion
from tandem_kafka.types import OffsetAndMetadata, TopicPartition

__all__ = ["CommitFuture"]

Offload = Callable[[Callable[[], None], Callable[[Any], None]], None]


class CommitFuture(Future):
    """Ends as soon as the commit does; its value are the offsets.

    What the user adds to it (`add_callback`, `add_errback`) is never called on the network thread:
    the next call of the consumer does it, or, if there is none, a thread of its own.
    """

    __slots__ = ("_completion", "_offsets")

    def __init__(
        self, completion: Completion[None], offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self._completion = completion
        self._offsets = offsets
        super().__init__()

    @property
    def is_done(self) -> bool:
        """Whether the commit has ended, well or not."""
        return self._completion.done

    @is_done.setter
    def is_done(self, value: bool) -> None:
        """The base class sets it; the completion is what counts."""

    @property
    def value(self) -> Mapping[TopicPartition, OffsetAndMetadata] | None:
        """The offsets, once they are committed."""
        done = self._completion.done and self._completion.error is None
        return self._offsets if done else None

    @value.setter
    def value(self, value: object) -> None:
        """The base class sets it; the completion is what counts."""

    @property
    def exception(self) -> BaseException | None:
        """Why the commit failed."""
        return self._completion.error if self._completion.done else None

    @exception.setter
    def exception(self, value: object) -> None:
        """The base class sets it; the completion is what counts."""

    def settle(self) -> None:
        """Call what was added; once. For any thread but the network thread."""
        error = self._completion.error
        if error is None:
            self.success(self._offsets)
        else:
            self.failure(error)

    def settle_elsewhere(self, offload: Offload) -> None:
        """Network thread: have it settled, if somebody waits to be called."""
        lock = self._lock
        if lock.acquire(blocking=False):
            waiting = bool(self._callbacks or self._errbacks)
            lock.release()
        else:
            waiting = True  # somebody is adding a callback at this moment
        if waiting:
            offload(self.settle, lambda _: None)
