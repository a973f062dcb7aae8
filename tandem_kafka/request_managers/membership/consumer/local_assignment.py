"""A member computes its group's assignment, when the coordinator asks it to.

    signal      the answer to a heartbeat says that we are to compute
    prepare     ConsumerGroupPrepareAssignment is answered with the group's state
    compute     on the network thread, in the turn that takes the answer
    install     ConsumerGroupInstallAssignment brings the result, or says that the assignor failed

What the assignor hands to each member comes with that member's assignment, to its own assignor.

Nothing is repeated here: whatever goes wrong, the result is dropped, and as long as nobody has
brought one, the coordinator goes on asking with every heartbeat, us or another member.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from tandem_kafka.assignors.local import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka.errors import (
    InvalidAssignmentError,
    LocalAssignorError,
    UnexpectedResponseError,
    for_code,
)
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.consumer.target import HandedOver
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)

__all__ = ["Announcement", "LocalAssignment"]

log = logging.getLogger(__name__)

#: UNKNOWN_SERVER_ERROR: there is no number for what an assignor may raise.
_ASSIGNOR_FAILED = -1
#: The field has 16 bits.
_NEWEST_VERSION = 32_767
_HIGHEST_ERROR = 127


class Announcement(NamedTuple):
    """The fields of ClientAssignors, comparable with what was said before."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int
    metadata_version: int
    metadata_bytes: bytes

    def encoded(self) -> Any:
        """Return the entry of the message."""
        return ConsumerGroupHeartbeatRequest.ClientAssignor(**self._asdict())


def _announced(assignor: PartitionAssignor, metadata: bytes | None = None) -> Announcement:
    """Ask an assignor; with `metadata` it is not asked for that."""
    return Announcement(
        assignor.name,
        assignor.minimum_version,
        assignor.maximum_version,
        assignor.reason,
        assignor.version,
        bytes(assignor.metadata()) if metadata is None else metadata,
    )


class LocalAssignment:
    """Of one member, one at a time."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        instances = [
            each() if isinstance(each, type) else each
            for each in context.config.group_local_assignors
        ]
        self._assignors: dict[str, PartitionAssignor] = {each.name: each for each in instances}
        self._announcements: dict[str, Announcement] = {}
        #: Those whose metadata cannot be had: told of once, not with every heartbeat.
        self._mute: set[str] = set()
        self._signalled = False
        #: What an assignor was told of last.
        self._told: tuple[frozenset[TopicPartition], HandedOver] | None = None
        #: What is to be installed, but for who we are.
        self._result: dict[str, Any] | None = None
        self._attempt = 0
        self._waits_for: ToNode | None = None

    def announced(self) -> tuple[Announcement, ...]:
        """Return what a heartbeat says of the assignors; an assignor that fails says the same."""
        for name, assignor in self._assignors.items():
            try:
                self._announcements[name] = _announced(assignor)
                self._mute.discard(name)
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises
                self._announcements.setdefault(name, _announced(assignor, metadata=b""))
                if name not in self._mute:
                    self._mute.add(name)
                    self._report(f"{name}: its metadata() failed", error)
        return tuple(self._announcements.values())

    def learn(self, message: Any) -> None:
        """Take in the answer to a heartbeat."""
        self._signalled = message.should_compute_assignment

    def forget(self) -> None:
        """A new membership: whatever comes of it is news."""
        self._told = None

    def hand_over(self, partitions: frozenset[TopicPartition], along: HandedOver | None) -> None:
        """Tell an assignor what was computed for this member, unless it knows."""
        assignor = self._assignors.get(along.assignor) if along is not None else None
        if along is None or assignor is None:
            self._told = None  # what it computes next is news, whatever it is
            return
        if self._told == (partitions, along):
            return
        self._told = partitions, along
        try:
            assignor.on_assignment(
                MemberAssignment(partitions, along.metadata, along.version, along.error)
            )
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises
            self._report(f"{along.assignor}: its on_assignment() failed", error)

    @property
    def concerned(self) -> bool:
        """True when there is anything to compute, to bring or to wait for."""
        return self._signalled or self._result is not None or self._waits_for is not None

    def poll(self, destination: ToNode | None) -> tuple[UnsentRequest, ...]:
        """Ask for the group's state, or bring what was computed."""
        if self._waits_for not in (None, destination):
            self._waits_for, self._attempt = None, self._attempt + 1  # the group is elsewhere
        identity = self._context.group.metadata
        if identity.generation_id <= 0:
            self._result = None  # of a membership that is over
            return ()
        if destination is None or self._waits_for is not None:
            return ()
        fields = {
            "group_id": self._context.config.group_id,
            "member_id": identity.member_id,
            "member_epoch": identity.generation_id,
        }
        if self._result is not None:
            result, self._result = self._result, None
            message = ConsumerGroupInstallAssignmentRequest(**fields, **result)
            return (self._request(message, destination, self._installed),)
        if not self._signalled:
            return ()
        message = ConsumerGroupPrepareAssignmentRequest(**fields)
        return (self._request(message, destination, self._prepared),)

    def _request(
        self, message: Any, destination: ToNode, answered: Callable[[Any], None]
    ) -> UnsentRequest:
        # Until the next heartbeat's answer nobody knows whether we are still to compute.
        self._signalled = False
        self._waits_for = destination
        self._attempt += 1
        attempt = self._attempt

        def done(response: ClientResponse) -> None:
            if attempt == self._attempt:
                self._waits_for = None
                if self._context.group.metadata.generation_id > 0:
                    answered(response.message)

        def failed(error: Exception) -> None:
            if attempt == self._attempt:
                self._waits_for = None
                log.info("%s: no result: %s", message.name, error)
                if isinstance(error, UnexpectedResponseError):
                    self._context.raise_in_poll(error)

        return self._context.request(message, destination, answered=done, failed=failed)

    # --- answers -------------------------------------------------------------------------------

    def _prepared(self, message: Any) -> None:
        if message.error_code:
            log.info("group's state not told: %s", for_code(message.error_code).__name__)
            return
        self._result = {"group_epoch": message.group_epoch, **self._computed(message)}

    def _installed(self, message: Any) -> None:
        if message.error_code == InvalidAssignmentError.errno:
            self._context.raise_in_poll(InvalidAssignmentError(message.error_message or ""))
        elif message.error_code:
            log.info("assignment dropped: %s", for_code(message.error_code).__name__)

    def _computed(self, message: Any) -> dict[str, Any]:
        """Run the assignor; what it raises goes to the application and to the coordinator."""
        name = message.assignor_name
        names = {topic.topic_id: topic.topic_name for topic in message.topics}
        topics = {topic.topic_name: topic.num_partitions for topic in message.topics}
        members = {each.member_id: _member(each, names) for each in message.members}
        try:
            assignment = self._assignors[name].assign(members, topics)
            ids = {topic_name: topic_id for topic_id, topic_name in names.items()}
            encoded = [_encoded(who, given, ids) for who, given in sorted(assignment.items())]
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises
            self._report(f"{name}: its assign() failed", error)
            return {"error_code": _ASSIGNOR_FAILED, "error_message": repr(error), "members": []}
        log.info("group %s: assigned with %s", self._context.config.group_id, name)
        return {"error_code": 0, "error_message": None, "members": encoded}

    def _report(self, what: str, error: Exception) -> None:
        log.warning("group_local_assignors: %s", what, exc_info=error)
        told = LocalAssignorError(f"{what}: {error!r}")
        told.__cause__ = error
        self._context.raise_in_poll(told)


def _member(entry: Any, names: dict[Any, str]) -> GroupMember:
    def partitions(entries: Any) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(names[each.topic_id], number)
            for each in entries
            if each.topic_id in names  # it may have what nobody subscribes to any more
            for number in each.partitions
        )

    return GroupMember(
        entry.member_id,
        entry.instance_id,
        entry.rack_id or "",
        frozenset(names[each] for each in entry.subscribed_topic_ids if each in names),
        partitions(entry.owned_partitions),
        partitions(entry.target_partitions),
        entry.metadata_version,
        bytes(entry.metadata_bytes),
        entry.reason,
    )


def _encoded(member_id: str, given: Any, ids: dict[str, Any]) -> Any:
    entry = ConsumerGroupInstallAssignmentRequest.Member
    assignment = given if isinstance(given, MemberAssignment) else MemberAssignment(given)
    version = int(assignment.metadata_version)
    if not 0 <= version <= _NEWEST_VERSION:
        raise ValueError(f"metadata_version={version}: must be from 0 to {_NEWEST_VERSION}")
    error = int(assignment.error)
    if not 0 <= error <= _HIGHEST_ERROR:
        raise ValueError(f"error={error}: must be from 0 to {_HIGHEST_ERROR}")
    by_topic: dict[Any, list[int]] = {}
    for topic, number in assignment.partitions:
        by_topic.setdefault(ids[topic], []).append(int(number))
    return entry(
        member_id=str(member_id),
        error=error,
        partitions=[
            entry.TopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in by_topic.items()
        ],
        metadata_version=version,
        metadata_bytes=bytes(assignment.metadata),
    )
