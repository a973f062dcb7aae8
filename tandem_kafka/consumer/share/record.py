"""The records of a share group, which the application acknowledges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, overload

from tandem_kafka.runtime.native import native
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    NOT_FED,
    AcknowledgeType,
    LockedPartition,
    LockedRun,
)
from tandem_kafka.types import ConsumerRecord, KeyT, ValueT

#: Looked up once, as programs acknowledge each record.
_RELEASE, _REJECT = AcknowledgeType.RELEASE, AcknowledgeType.REJECT
_RENEW = AcknowledgeType.RENEW


class PythonAccepting:
    """Implements the native `Accepting` in Python: what most programs call for each record."""

    __slots__ = ()

    def accept(self) -> None:
        """Acknowledge that the record has been handled; nobody gets it again.

        Raises:
            RecordLockLostError: The lock has ended, so the record is delivered again.
            IllegalStateError: The record has been acknowledged before.
        """
        record: Any = self
        run: LockedRun = record._origin  # noqa: SLF001 - this is a part of it
        run.partition.owner.acknowledge(run, record.offset, AcknowledgeType.ACCEPT)


if TYPE_CHECKING or native is None:
    Accepting = PythonAccepting
else:
    Accepting = native.Accepting
    Accepting._learn(  # noqa: SLF001
        LockedRun, LockedPartition, LockedRecords, PROCESS, NOT_FED
    )


class ShareRecord(ConsumerRecord[KeyT, ValueT], Accepting):
    """One record of a share group: a `ConsumerRecord` that is locked for this consumer.

    Any thread may acknowledge it, once. The broker has it when ``commit()`` returns. In a fork of
    the process, this raises ``ForkedConsumerError``.
    """

    _origin: LockedRun

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a record is a tuple, and a loop may use its object for the next one."""
        msg = f"a ShareRecord cannot have the attribute {name!r}"
        raise AttributeError(msg)

    def __reduce__(self) -> tuple[type[ConsumerRecord[KeyT, ValueT]], tuple[Any, ...]]:
        """Return how to make a copy: the lock stays with this one."""
        return ConsumerRecord, tuple(self)

    def _replace(self, **fields: Any) -> Self:
        """Return the record with other fields, for example a decoded value, and the same lock."""
        made = super()._replace(**fields)
        object.__setattr__(made, "_origin", self._origin)
        return made

    @property
    def delivery_count(self) -> int:
        """How often the record has been delivered, with this time: 1 at first.

        Deliveries to this consumer count even if brokers forget them, for example when the leader
        moves. So do those of a topic that this one of the same name has replaced, unless their
        records were accepted or rejected.
        """
        return self._origin.delivery_count

    @property
    def lock_deadline_ms(self) -> int:
        """When the lock ends, in milliseconds since the Unix epoch; later after ``renew()``.

        It is any time in the past if the lock has ended early, for example with its connection.
        """
        clock = self._origin.partition.owner.clock
        return clock.wall_ms() + self._origin.lock_times(self.offset)[0] - clock.now_ms()

    @property
    def is_locked(self) -> bool:
        """Whether it is not acknowledged, and its lock has not ended."""
        run, clock = self._origin, self._origin.partition.owner.clock
        return run.is_open(self.offset) and clock.now_ms() < run.lock_times(self.offset)[0]

    def release(self) -> None:
        """Let the record be delivered again, unless this was its last attempt.

        A group gives each record ``share.delivery.count.limit`` attempts, 5 by default.

        Raises:
            RecordLockLostError: The lock has ended, so the record is delivered again.
            IllegalStateError: The record has been acknowledged before.
        """
        run = self._origin
        run.partition.owner.acknowledge(run, self.offset, _RELEASE)

    def reject(self) -> None:
        """Acknowledge that the record cannot be handled; nobody gets it again.

        Raises:
            RecordLockLostError: The lock has ended, so the record is delivered again.
            IllegalStateError: The record has been acknowledged before.
        """
        run = self._origin
        run.partition.owner.acknowledge(run, self.offset, _REJECT)

    def renew(self) -> None:
        """Ask for another lock of the full duration, for a handler that takes long (KIP-1222).

        ``commit()`` returns the error if the broker refuses it.

        Raises:
            RecordLockLostError: The lock has ended, so the record is delivered again.
            IllegalStateError: The record has been acknowledged before.
        """
        run = self._origin
        run.partition.owner.acknowledge(run, self.offset, _RENEW)


ShareRecord.__module__ = "tandem_kafka"  # the public one


class ShareRecords(Sequence[ShareRecord[KeyT, ValueT]]):
    """Records of one partition, in offset order; each is made when someone looks at it."""

    def __init__(self, parts: list[Sequence[ShareRecord[KeyT, ValueT]]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        """Return the number of records."""
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[ShareRecord[KeyT, ValueT]]:
        """Yield the records."""
        return chain.from_iterable(self._parts)

    @overload
    def __getitem__(self, index: int) -> ShareRecord[KeyT, ValueT]: ...
    @overload
    def __getitem__(self, index: slice) -> list[ShareRecord[KeyT, ValueT]]: ...
    def __getitem__(
        self, index: int | slice
    ) -> ShareRecord[KeyT, ValueT] | list[ShareRecord[KeyT, ValueT]]:
        """Return a record, or a list of some."""
        if isinstance(index, slice):
            return list(self)[index]
        left = index if index >= 0 else index + len(self)
        for records in self._parts:
            if 0 <= left < len(records):
                return records[left]
            left -= len(records)
        msg = f"there is no record {index} of {len(self)}"
        raise IndexError(msg)

    def __eq__(self, other: object) -> bool:
        """Compare with any sequence of records."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show all records."""
        return repr(list(self))
