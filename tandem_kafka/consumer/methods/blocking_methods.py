"""The methods of `KafkaConsumer` that wait for a broker: the coroutines, each run to its end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, overload

from tandem_kafka.consumer.arguments import check_offsets
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.concurrent_calls import WithCore, any_thread, part_of_consumers
from tandem_kafka.consumer.methods.awaitable_methods import AwaitableMethods
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from tandem_kafka._kafka import Future


P = ParamSpec("P")
R = TypeVar("R")

#: A function of the offsets and of the error, which is None after a successful commit.
CommitCallback: TypeAlias = Callable[
    [dict[TopicPartition, OffsetAndMetadata], Exception | None], object
]


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return a method with the same signature and documentation that blocks its thread."""

    @functools.wraps(method)
    def blocks(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(method(self, *args, **kwargs))

    return blocks


@part_of_consumers
class BlockingMethods(WithCore):
    """A part of ``KafkaConsumer``; the documentation is that of ``AwaitableMethods``."""

    _commits: Commits

    _begin = blocking(AwaitableMethods._begin)  # noqa: SLF001 - the same facade
    _bootstrap = blocking(AwaitableMethods._bootstrap)  # noqa: SLF001

    subscribe = blocking(AwaitableMethods.subscribe)
    assign = blocking(AwaitableMethods.assign)
    unsubscribe = blocking(AwaitableMethods.unsubscribe)

    seek_to_beginning = blocking(AwaitableMethods.seek_to_beginning)
    seek_to_end = blocking(AwaitableMethods.seek_to_end)
    beginning_offsets = blocking(AwaitableMethods.beginning_offsets)
    end_offsets = blocking(AwaitableMethods.end_offsets)
    offsets_for_times = blocking(AwaitableMethods.offsets_for_times)
    commit = blocking(AwaitableMethods.commit)

    enforce_rebalance = blocking(AwaitableMethods.enforce_rebalance)
    topics = blocking(AwaitableMethods.topics)
    _commit_existing = blocking(AwaitableMethods._commit_existing)  # noqa: SLF001 - ours
    _known_partitions = blocking(AwaitableMethods._known_partitions)  # noqa: SLF001 - ours
    cluster = blocking(AwaitableMethods.cluster)
    client_instance_id = blocking(AwaitableMethods.client_instance_id)
    partitions_for_topic = blocking(AwaitableMethods.partitions_for_topic)

    # A wrapper of one signature cannot carry overloads.
    if TYPE_CHECKING:

        @overload
        def position(self, partition: TopicPartition, timeout_ms: None = None) -> int: ...

        @overload
        def position(self, partition: TopicPartition, timeout_ms: float | None) -> int | None: ...

        def position(
            self, partition: TopicPartition, timeout_ms: float | None = None
        ) -> int | None:
            """See ``AwaitableMethods``."""

        @overload
        def committed(
            self,
            partition: TopicPartition,
            metadata: Literal[False] = False,
            timeout_ms: float | None = None,
        ) -> int | None: ...

        @overload
        def committed(
            self,
            partition: TopicPartition,
            metadata: Literal[True],
            timeout_ms: float | None = None,
        ) -> OffsetAndMetadata | None: ...

        @overload
        def committed(
            self, partition: TopicPartition, metadata: bool, timeout_ms: float | None = None
        ) -> int | OffsetAndMetadata | None: ...

        def committed(
            self,
            partition: TopicPartition,
            metadata: bool = False,
            timeout_ms: float | None = None,
        ) -> int | OffsetAndMetadata | None:
            """See ``AwaitableMethods``."""

    else:
        position = blocking(AwaitableMethods.position)
        committed = blocking(AwaitableMethods.committed)

    def commit_sync(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets and wait; the Java client's name for ``commit()``."""
        self.commit(offsets, timeout_ms)

    @any_thread
    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """Commit offsets without waiting. The commit is sent once and never retried.

        Args:
            offsets: The offsets to commit, each one past the last processed record. By default,
                the positions of all records that have been returned.
            callback: Called with the offsets and the error (None after success) during a later
                poll, commit or close, on the thread that makes this call. Callbacks run in the
                order of the commits.

        Returns:
            kafka-python's ``Future``. It completes together with the commit, even if the
            application makes no further call.

        Raises:
            NoGroupError: The consumer has no ``group_id``.
            TypeError, InvalidArgumentError: ``offsets`` is invalid.
        """
        self._core.require_group()
        chosen = None if offsets is None else check_offsets(offsets)
        return self._commits.commit_async(chosen, callback)

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Wait until the cluster has been reached.

        Args:
            timeout_ms: How long to wait, in milliseconds; ``bootstrap_timeout_ms`` by default.
            refresh: Wait for the next metadata response even if the cluster was reached before.

        Raises:
            KafkaTimeoutError: No bootstrap server responded in time.
            KafkaError: The cluster rejected the connection.
        """
        self._bootstrap(timeout_ms, refresh=refresh)
