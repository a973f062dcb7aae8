"""The log of one group: what was written, and what is in force of it."""

from __future__ import annotations

from typing import Any, TypeVar

from tandem_kafka.testing.coordinator.records import Value

__all__ = ["About", "GroupLog", "Key"]

#: A member, by its id; a partition, maybe with the id of a producer; empty for the group.
About = Any
#: The type of the value, and whom it is about.
Key = tuple[type[Value], About]
V = TypeVar("V", bound=Value)


class GroupLog:
    """Records by key, of which the last one counts.

    Attributes:
        records: All that was written, oldest first.
    """

    def __init__(self) -> None:
        self.records: list[tuple[Key, Value | None]] = []
        self._in_force: dict[Key, Value] = {}
        self._positions: dict[Key, int] = {}

    def write(self, value: Value, about: About = "") -> None:
        """Append a record, unless it is in force already."""
        key: Key = (type(value), about)
        if self._in_force.get(key) != value:
            self._append(key, value)

    def _append(self, key: Key, value: Value) -> None:
        self._positions[key] = len(self.records)
        self.records.append((key, value))
        self._in_force[key] = value

    def forget(self, about: About) -> None:
        """Append tombstones for all that is about a member or a partition."""
        for key in [key for key in self._in_force if key[1] == about]:
            self._end(key)

    def end(self, kind: type[Value]) -> None:
        """Append a tombstone for each record of a type that is in force."""
        for key in [key for key in self._in_force if key[0] is kind]:
            self._end(key)

    def _end(self, key: Key) -> None:
        self.records.append((key, None))
        del self._in_force[key]

    def group(self, kind: type[V]) -> V | None:
        """Return what is in force of the group."""
        return self.members(kind).get("")

    def members(self, kind: type[V]) -> dict[str, V]:
        """Return what is in force of each member, oldest member first."""
        return {about: v for about, v in self._of(kind).items() if isinstance(about, str)}

    def partitions(self, kind: type[V]) -> dict[Any, V]:
        """Return what is in force of each partition, oldest first."""
        return {about: v for about, v in self._of(kind).items() if not isinstance(about, str)}

    def _of(self, kind: type[V]) -> dict[About, V]:
        return {key[1]: v for key, v in self._in_force.items() if isinstance(v, kind)}

    def position(self, kind: type[Value], about: About) -> int:
        """Return where what is in force was written, -1 if nothing is."""
        key: Key = (kind, about)
        return self._positions[key] if key in self._in_force else -1

    def newest_of(self, kind: type[Value]) -> int:
        """Return how many records of a type are at the end, with none of another behind them."""
        count = 0
        for key, _ in reversed(self.records):
            if key[0] is not kind:
                break
            count += 1
        return count

    def read(self, lost: int = 0) -> GroupLog:
        """Replay what was written, without the last `lost` records, as who takes over does."""
        log = GroupLog()
        for key, value in self.records[: max(0, len(self.records) - lost)]:
            if value is not None:
                log._append(key, value)
            elif key in log._in_force:
                log._end(key)
        return log
