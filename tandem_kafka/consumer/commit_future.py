"""The future that `commit_async()` returns; it completes without another call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka.future import Future

from tandem_kafka.events.completable import Completion
from tandem_kafka.types import OffsetAndMetadata, TopicPartition

Offload = Callable[[Callable[[], None], Callable[[Any], None]], None]


class CommitFuture(Future):
    """Completes together with the commit; its value is the committed offsets.

    Invariant: callbacks that the user adds (`add_callback`, `add_errback`) never run on the network
    thread. The next call of the consumer runs them; without such a call, a separate thread does.
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
        """Whether the commit has succeeded or failed."""
        return self._completion.done

    @is_done.setter
    def is_done(self, value: bool) -> None:
        """Ignore the value that the base class sets: the completion determines it."""

    @property
    def value(self) -> Mapping[TopicPartition, OffsetAndMetadata] | None:
        """The offsets, once they have been committed."""
        done = self._completion.done and self._completion.error is None
        return self._offsets if done else None

    @value.setter
    def value(self, value: object) -> None:
        """Ignore the value that the base class sets: the completion determines it."""

    @property
    def exception(self) -> BaseException | None:
        """The error of a failed commit."""
        return self._completion.error if self._completion.done else None

    @exception.setter
    def exception(self, value: object) -> None:
        """Ignore the value that the base class sets: the completion determines it."""

    def settle(self) -> None:
        """Call each added callback once; on any thread but the network thread."""
        error = self._completion.error
        if error is None:
            self.success(self._offsets)
        else:
            self.failure(error)

    def settle_elsewhere(self, offload: Offload) -> None:
        """Network thread: have another thread settle the future if it has callbacks."""
        lock = self._lock
        if lock.acquire(blocking=False):
            waiting = bool(self._callbacks or self._errbacks)
            lock.release()
        else:
            waiting = True  # another thread is adding a callback
        if waiting:
            offload(self.settle, lambda _: None)
