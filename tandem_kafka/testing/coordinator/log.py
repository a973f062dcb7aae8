"""The log of one group: what was written, and what is in force of it."""

from __future__ import annotations

from typing import TypeVar

from tandem_kafka.testing.coordinator.records import Value

__all__ = ["GroupLog", "Key"]

#: The type of the value, and the member it is about; empty for the group.
Key = tuple[type[Value], str]
V = TypeVar("V", bound=Value)


class GroupLog:
    """Records by key, of which the last one counts.

    Attributes:
        records: All that was written, oldest first.
    """

    def __init__(self) -> None:
        self.records: list[tuple[Key, Value | None]] = []
        self._in_force: dict[Key, Value] = {}

    def write(self, value: Value, member_id: str = "") -> None:
        """Append a record, unless it is in force already."""
        key: Key = (type(value), member_id)
        if self._in_force.get(key) != value:
            self.records.append((key, value))
            self._in_force[key] = value

    def forget(self, member_id: str) -> None:
        """Append tombstones for all that is about a member."""
        for key in [key for key in self._in_force if key[1] == member_id]:
            self.records.append((key, None))
            del self._in_force[key]

    def end(self, kind: type[Value]) -> None:
        """Append a tombstone for what is in force of the group, if anything is."""
        if self._in_force.pop((kind, ""), None) is not None:
            self.records.append(((kind, ""), None))

    def group(self, kind: type[V]) -> V | None:
        """Return what is in force of the group."""
        return self.members(kind).get("")

    def members(self, kind: type[V]) -> dict[str, V]:
        """Return what is in force of each member, oldest member first."""
        found: dict[str, V] = {}
        for (_, member_id), value in self._in_force.items():
            if isinstance(value, kind):
                found[member_id] = value
        return found

    @classmethod
    def read(cls, records: list[tuple[Key, Value | None]]) -> GroupLog:
        """Replay what was written, as a coordinator does that takes over."""
        log = cls()
        for key, value in records:
            if value is not None:
                log.write(value, key[1])
            else:
                log._in_force.pop(key, None)
                log.records.append((key, None))
        return log
