"""The future that `commit_async()` returns; it completes without another call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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

    __slots__ = ("_added", "_completion", "_offsets")

    def __init__(
        self, completion: Completion[None], offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        self._completion = completion
        self._offsets = offsets
        self._added: list[tuple[Callable[[Any], Any], bool]] = []
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

    def add_callback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> CommitFuture:
        """Call a function with the offsets, after the given arguments: on success."""
        return self._add(f, args, kwargs, failed=False)

    def add_errback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> CommitFuture:
        """Call a function with the error, after the given arguments: on failure."""
        return self._add(f, args, kwargs, failed=True)

    def _add_cb_eb(self, cb: Callable[[Any], Any], eb: Callable[[Any], Any]) -> CommitFuture:
        """Kafka-python chains futures with it."""
        return self.add_callback(cb).add_errback(eb)

    # Invariant: `with` releases the lock whatever a signal handler raises. The methods of the base
    # class do not, and the next call would wait for ever.
    def _add(self, f: Callable[..., Any], args: Any, kwargs: Any, *, failed: bool) -> CommitFuture:
        call = partial(f, *args, **kwargs) if args or kwargs else f
        with self._lock:
            if not self._completion.done:
                self._added.append((call, failed))
                return self
        self._call(call, failed=failed)
        return self

    def settle(self) -> None:
        """Call each added callback once; on any thread but the network thread."""
        with self._lock:
            added, self._added = self._added, []
        for call, failed in added:
            self._call(call, failed=failed)

    def _call(self, call: Callable[[Any], Any], *, failed: bool) -> None:
        error = self._completion.error
        if failed is (error is None):
            return
        # A future of kafka-python's own logs what the function raises.
        caller: Any = Future()
        if failed:
            caller.add_errback(call).failure(error)
        else:
            caller.add_callback(call).success(self._offsets)

    def settle_elsewhere(self, offload: Offload) -> None:
        """Network thread: have another thread settle the future if it has callbacks."""
        lock = self._lock
        if lock.acquire(blocking=False):
            waiting = bool(self._added)
            lock.release()
        else:
            waiting = True  # another thread is adding a callback
        if waiting:
            offload(self.settle, lambda _: None)
