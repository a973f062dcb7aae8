"""The share sessions of a broker: the partitions that each member fetches from it.

A session belongs to the connection that has opened it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from kafka import errors

from tandem_kafka_testing.coordinator.step import Error


class SessionLimitReached:
    """SHARE_SESSION_LIMIT_REACHED, which kafka-python lacks."""

    errno = 133


OPEN_EPOCH, CLOSE_EPOCH = 0, -1

#: Group and member.
MemberKey = tuple[str, str]
#: Id of the topic, and number of the partition.
PartitionKey = tuple[UUID, int]


@dataclass(slots=True, eq=False)
class ShareSession:
    """One session.

    Attributes:
        epoch: The epoch of the next request.
        partitions: Its partitions in order; True for those that the next response must have.
        connection: The number of its connection.
    """

    partitions: dict[PartitionKey, bool]
    connection: int
    epoch: int = 1

    def advance(self) -> None:
        """Expect the next request."""
        self.epoch = 1 if self.epoch == 2**31 - 1 else self.epoch + 1


@dataclass(slots=True)
class ShareSessions:
    """Sessions by group and member.

    Attributes:
        limit: Largest number of sessions (`group.share.max.share.sessions`).
    """

    limit: int = 2_000
    _sessions: dict[MemberKey, ShareSession] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Forget all sessions, as a restart does."""
        self._sessions.clear()

    def find(self, member: MemberKey, epoch: int) -> ShareSession | Error:
        """Return the session for a request; an error if there is none, or its epoch differs."""
        session = self._sessions.get(member)
        if session is None:
            return errors.ShareSessionNotFoundError
        if epoch not in (CLOSE_EPOCH, session.epoch):
            return errors.InvalidShareSessionEpochError
        return session

    def open(
        self, member: MemberKey, partitions: Iterable[PartitionKey], connection: int
    ) -> ShareSession | Error:
        """Begin a session, in place of an earlier one of the member."""
        self._sessions.pop(member, None)
        if len(self._sessions) >= self.limit:
            return SessionLimitReached
        session = ShareSession(dict.fromkeys(partitions, False), connection)
        self._sessions[member] = session
        return session

    def close(self, member: MemberKey) -> list[PartitionKey]:
        """End a session, if there is one; returns its partitions."""
        session = self._sessions.pop(member, None)
        return list(session.partitions) if session is not None else []

    def of_connection(self, connection: int) -> list[MemberKey]:
        """Return the members whose sessions belong to a connection."""
        return [m for m, session in self._sessions.items() if session.connection == connection]

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of a group has a session."""
        return any(group == group_id for group, _ in self._sessions)
