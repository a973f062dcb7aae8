"""The arguments of workers, and their checks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

from tandem_kafka.config.external import check_listener
from tandem_kafka.errors import ArgumentTypeError, InvalidArgumentError, NoGroupError
from tandem_kafka.types import SubscriptionPattern
from tandem_kafka.workers.assignment import Task, WorkedPartition
from tandem_kafka.workers.done_map import MIN_LIMIT_BYTES
from tandem_kafka.workers.retry import Retry

Order = Literal["key", "partition", "none"]

#: Returns the lane of a record, None if it has no order.
LaneOf = Callable[[WorkedPartition, Any], Hashable | None]

_ORDERS = ("key", "partition", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """How handlers are called, for all kinds of workers.

    Attributes:
        exhausted: What follows the last attempt: one of `reactions`, or a function.
        batch: Maximum number of records of a call.
    """

    handle: Callable[..., Any]
    workers: int | Executor
    retry: Retry
    exhausted: Any
    drain_timeout_ms: float
    batch: int = 1

    #: The argument that is `exhausted`, and the names that it may have as its value.
    reaction: ClassVar[str] = "exhausted"
    reactions: ClassVar[tuple[str, str]] = ("stop", "skip")
    #: What `workers` may be instead of a number.
    or_executor: ClassVar[str] = " or a concurrent.futures.Executor object"
    #: The workers for ordinary functions.
    blocking: ClassVar[str] = "KeyedWorkers"

    def check_calls(self) -> None:
        """Check the values.

        Raises:
            InvalidArgumentError, ArgumentTypeError: A value is invalid.
        """
        if not callable(self.handle):
            msg = f"handle must be a function that takes a record, got {self.handle!r}"
            raise ArgumentTypeError(msg)
        if self.exhausted not in self.reactions and not callable(self.exhausted):
            one, other = self.reactions
            msg = (
                f'{self.reaction} must be "{one}", "{other}" or a function of record, error and '
                f"number of attempts, got {self.exhausted!r}"
            )
            raise InvalidArgumentError(msg)
        self._check_workers()
        check_duration("drain_timeout_ms", self.drain_timeout_ms, 0)
        if not isinstance(self.retry, Retry):
            raise ArgumentTypeError(f"retry must be a Retry, got {self.retry!r}")

    def _check_workers(self) -> None:
        if self.or_executor and isinstance(self.workers, Executor):
            return
        if isinstance(self.workers, bool) or not isinstance(self.workers, int):
            msg = f"workers must be a number{self.or_executor}, got {self.workers!r}"
            raise ArgumentTypeError(msg)
        if self.workers < 1:
            raise InvalidArgumentError(f"workers must be at least 1, got {self.workers}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(CallSettings):
    """Checked arguments; `KeyedWorkers` documents them."""

    order: Order
    key: Callable[[Any], Hashable | None] | None
    max_in_flight: int
    commit_interval_ms: float
    metadata_limit_bytes: int
    listener: Any
    pattern: str | re.Pattern[str] | SubscriptionPattern | None

    def check(self, config: dict[str, Any]) -> None:
        """Check the values, and that the consumer can be used.

        Args:
            config: The options of the consumer.

        Raises:
            InvalidArgumentError, ArgumentTypeError: A value is invalid.
            NoGroupError: The consumer has no group.
        """
        _check_consumer(config)
        self.check_calls()
        self._check_order()
        _check_integer("batch", self.batch, 1)
        _check_integer("max_in_flight", self.max_in_flight, 1)
        if self.max_in_flight < self.batch:
            msg = f"max_in_flight ({self.max_in_flight}) must be at least batch ({self.batch})"
            raise InvalidArgumentError(msg)
        _check_integer("metadata_limit_bytes", self.metadata_limit_bytes, MIN_LIMIT_BYTES)
        check_duration("commit_interval_ms", self.commit_interval_ms, 1)
        check_listener(self.listener)
        self._check_drain(config)

    def _check_order(self) -> None:
        if self.order not in _ORDERS:
            msg = f'order must be "key", "partition" or "none", got {self.order!r}'
            raise InvalidArgumentError(msg)
        if self.key is None:
            return
        if not callable(self.key):
            msg = f"key must be a function that takes a record, got {self.key!r}"
            raise ArgumentTypeError(msg)
        if self.order != "key":
            msg = f'key has no effect with order={self.order!r}; use order="key", the default'
            raise InvalidArgumentError(msg)

    def _check_drain(self, config: dict[str, Any]) -> None:
        interval_ms = config["max_poll_interval_ms"]
        if self.drain_timeout_ms >= interval_ms:
            msg = (
                f"drain_timeout_ms ({self.drain_timeout_ms}) must be less than the consumer's "
                f"max_poll_interval_ms ({interval_ms}): a rebalance waits no longer"
            )
            raise InvalidArgumentError(msg)

    def lane_of(self) -> LaneOf:
        """Return the function that finds the lane of a record."""
        key = self.key
        if key is not None:
            return lambda _part, record: key(record)
        if self.order == "key":
            return _lane_of_key
        if self.order == "partition":
            return lambda part, _record: part.tp
        return lambda _part, _record: None


def _lane_of_key(part: WorkedPartition, record: Any) -> Hashable | None:
    key = record.key
    return None if key is None else (part.tp, key)


def _check_consumer(config: dict[str, Any]) -> None:
    if config["group_id"] is None:
        msg = "the consumer has no group_id, and workers commit offsets; create it with a group_id"
        raise NoGroupError(msg)
    if config["enable_auto_commit"]:
        msg = (
            "the consumer has enable_auto_commit=True, which would commit records that are not "
            "done; create it with enable_auto_commit=False"
        )
        raise InvalidArgumentError(msg)


class UnusableHandlerError(BaseException):
    """The handler is not of the kind that the workers need.

    It is no `Exception`, because no record is at fault and no retry helps. `run()` converts it.
    """


def check_not_awaitable(function: Any, result: Any, *, name: str = "handle") -> None:
    """Check that an ordinary function did not return a coroutine, which nobody would await.

    Raises:
        UnusableHandlerError: It did.
    """
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        msg = (
            f"{name} must be an ordinary function, but {function!r} returned {result!r}, so its "
            "record is not done; use AsyncKeyedWorkers or AsyncShareWorkers for coroutines"
        )
        raise UnusableHandlerError(msg)


def report(settings: CallSettings, task: Task) -> None:
    """Call the function for each record of a task that cannot be handled.

    Raises:
        UnusableHandlerError: It is a coroutine function.
    """
    function = settings.exhausted
    for record in task.records:
        result = function(record, task.error, task.failures)
        check_not_awaitable(function, result, name=settings.reaction)


def _check_integer(name: str, value: Any, lowest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name} must be an int, got {value!r}")
    if value < lowest:
        raise InvalidArgumentError(f"{name} must be at least {lowest}, got {value}")


def check_duration(name: str, value: Any, lowest: int) -> None:
    """Check a duration in milliseconds.

    Raises:
        InvalidArgumentError, ArgumentTypeError: It has an invalid value or type.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(f"{name} must be a number of milliseconds, got {value!r}")
    if not lowest <= value < inf:
        raise InvalidArgumentError(f"{name} must be at least {lowest} ms and finite, got {value}")
