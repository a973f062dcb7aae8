"""The log of one group: all records, and the newest of each key."""

from __future__ import annotations

from typing import Any, TypeVar

from tandem_kafka_testing.coordinator.records import Value

#: A member id, or a partition (perhaps with a producer id); empty for the group.
About = Any
#: The type of the record and its subject.
Key = tuple[type[Value], About]
V = TypeVar("V", bound=Value)


class GroupLog:
    """Records with keys; the newest of each key is in force.

    Attributes:
        records: All records, oldest first.
    """

    def __init__(self) -> None:
        self.records: list[tuple[Key, Value | None]] = []
        self._in_force: dict[Key, Value] = {}
        self._positions: dict[Key, int] = {}

    def write(self, value: Value, about: About = "") -> None:
        """Append a record, unless an equal one is in force."""
        key: Key = (type(value), about)
        if self._in_force.get(key) != value:
            self._append(key, value)

    def _append(self, key: Key, value: Value) -> None:
        self._positions[key] = len(self.records)
        self.records.append((key, value))
        self._in_force[key] = value

    def forget(self, about: About) -> None:
        """Append tombstones for all records of a member or a partition."""
        for key in [key for key in self._in_force if key[1] == about]:
            self._end(key)

    def end(self, kind: type[Value]) -> None:
        """Append tombstones for all records of a type."""
        for key in [key for key in self._in_force if key[0] is kind]:
            self._end(key)

    def _end(self, key: Key) -> None:
        self.records.append((key, None))
        del self._in_force[key]

    def group(self, kind: type[V]) -> V | None:
        """Return the record of the group, None without one."""
        return self.members(kind).get("")

    def members(self, kind: type[V]) -> dict[str, V]:
        """Return the records of all members, oldest member first."""
        return {about: v for about, v in self._of(kind).items() if isinstance(about, str)}

    def partitions(self, kind: type[V]) -> dict[Any, V]:
        """Return the records of all partitions, oldest first."""
        return {about: v for about, v in self._of(kind).items() if not isinstance(about, str)}

    def _of(self, kind: type[V]) -> dict[About, V]:
        return {key[1]: v for key, v in self._in_force.items() if isinstance(v, kind)}

    def position(self, kind: type[Value], about: About) -> int:
        """Return the position of the record in force, -1 without one."""
        key: Key = (kind, about)
        return self._positions[key] if key in self._in_force else -1

    def newest_of(self, kind: type[Value]) -> int:
        """Return the number of records of a type at the end of the log."""
        count = 0
        for key, _ in reversed(self.records):
            if key[0] is not kind:
                break
            count += 1
        return count

    def read(self, lost: int = 0) -> GroupLog:
        """Return a log without the last `lost` records, as the next coordinator reads it."""
        log = GroupLog()
        for key, value in self.records[: max(0, len(self.records) - lost)]:
            if value is not None:
                log._append(key, value)
            elif key in log._in_force:
                log._end(key)
        return log
