"""Computes the assignment of the group when the coordinator requests it (KIP-848).

    signal      a heartbeat response asks this member to compute the assignment
    prepare     ConsumerGroupPrepareAssignment returns the state of the group
    compute     on the thread for user code, while heartbeats continue
    install     ConsumerGroupInstallAssignment sends the result, or the failure of the assignor

The assignor's metadata for each member are sent with that member's assignment, to its own assignor.

There are no retries: after any error the result is dropped. Until the coordinator has received an
assignment, it keeps asking this or another member with every heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tandem_kafka.assignors.local import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka.errors import (
    InvalidAssignmentError,
    LocalAssignorError,
    UnexpectedResponseError,
    for_code,
)
from tandem_kafka.logs import client_logger
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.kip848.target import AssignorMetadata
from tandem_kafka.request_managers.user_code import PendingCall
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire import messages

log = client_logger(__name__)

#: UNKNOWN_SERVER_ERROR, because the protocol has no code for the failure of an assignor.
_ASSIGNOR_FAILED = -1
#: The field has 16 bits.
_NEWEST_VERSION = 32_767
_HIGHEST_ERROR = 127


class Announcement(NamedTuple):
    """The fields of ClientAssignor in a heartbeat, to detect changes."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int
    metadata_version: int
    metadata_bytes: bytes

    def encoded(self) -> Any:
        """Return the entry of the message."""
        return messages.ConsumerGroupHeartbeatRequest.ClientAssignor(**self._asdict())


def _announced(assignor: PartitionAssignor, metadata: bytes | None = None) -> Announcement:
    """Return the announcement of an assignor; `metadata` replaces its own."""
    return Announcement(
        assignor.name,
        assignor.minimum_version,
        assignor.maximum_version,
        assignor.reason,
        assignor.version,
        bytes(assignor.metadata()) if metadata is None else metadata,
    )


class _Described(NamedTuple):
    """The announcement of one assignor, and the error if its metadata failed."""

    name: str
    announcement: Announcement
    error: Exception | None


class LocalAssignment:
    """Computes one assignment at a time when requested.

    Assignors run on the thread for user code, never on the network thread.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        instances = [
            each() if isinstance(each, type) else each
            for each in context.config.group_local_assignors
        ]
        self._assignors: dict[str, PartitionAssignor] = {each.name: each for each in instances}
        self._announcements: dict[str, Announcement] = {}
        #: Assignors whose metadata failed; reported once, not with every heartbeat.
        self._failed_assignors: set[str] = set()
        self._computation_requested = False
        #: The last notification of an assignor.
        self._last_notification: tuple[frozenset[TopicPartition], AssignorMetadata] | None = None
        #: The result to install, without the fields that identify the member.
        self._result: dict[str, Any] | None = None
        self._attempt = 0
        self._in_flight_to: ToNode | None = None
        code = context.user_code
        self._description_call = PendingCall(code, self._handle_descriptions, context.raise_in_poll)
        self._computation_call = PendingCall(code, self._handle_result, context.raise_in_poll)

    # --- what the assignors announce -----------------------------------------------------------

    @property
    def announcements_known(self) -> bool:
        """Whether the announcements of all assignors are known."""
        return self._announcements.keys() == self._assignors.keys()

    def describe(self) -> None:
        """Update the announcements of all assignors, for the next heartbeats."""
        if self._assignors and not self._description_call.running:
            self._description_call.start(self._describe)

    def announced(self) -> tuple[Announcement, ...]:
        """Return the announcements for a heartbeat."""
        return tuple(self._announcements.values())

    def _describe(self) -> list[_Described]:
        described = []
        for name, assignor in self._assignors.items():
            try:
                described.append(_Described(name, _announced(assignor), None))
            except Exception as error:  # noqa: BLE001 - user code may raise anything
                described.append(_Described(name, _announced(assignor, metadata=b""), error))
        return described

    def _handle_descriptions(self, described: list[_Described]) -> None:
        """Store the announcements; an assignor that failed keeps its previous one."""
        for name, announcement, error in described:
            if error is None:
                self._announcements[name] = announcement
                self._failed_assignors.discard(name)
                continue
            self._announcements.setdefault(name, announcement)
            if name not in self._failed_assignors:
                self._failed_assignors.add(name)
                self._report(f"metadata() of assignor {name} failed", error)

    # --- requests of the coordinator -----------------------------------------------------------

    def handle_heartbeat(self, message: Any) -> None:
        """Process a heartbeat response, which may request a computation."""
        self._computation_requested = message.should_compute_assignment

    def forget(self) -> None:
        """Forget the last notification, because a new membership starts."""
        self._last_notification = None

    def notify_assignor(
        self,
        partitions: frozenset[TopicPartition],
        metadata: AssignorMetadata | None,
        then: Callable[[], None],
    ) -> None:
        """Notify an assignor of this member's assignment if it changed; then call `then`."""
        assignor = self._assignors.get(metadata.assignor) if metadata is not None else None
        if metadata is None or assignor is None:
            self._last_notification = None  # notify it of the next assignment in any case
            then()
            return
        if self._last_notification == (partitions, metadata):
            then()
            return
        self._last_notification = partitions, metadata
        assignment = MemberAssignment(
            partitions, metadata.metadata, metadata.version, metadata.error
        )

        def failed(error: Exception) -> None:
            self._report(f"on_assignment() of assignor {metadata.assignor} failed", error)
            then()

        self._context.user_code.run(
            lambda: assignor.on_assignment(assignment), lambda _: then(), failed
        )

    @property
    def active(self) -> bool:
        """True if a computation is requested, in flight or ready to install."""
        return (
            self._computation_requested
            or self._result is not None
            or self._in_flight_to is not None
        )

    def poll(self, destination: ToNode | None) -> tuple[UnsentRequest, ...]:
        """Return a request for the state of the group, or one that installs the result."""
        if self._in_flight_to not in (None, destination):
            self._in_flight_to, self._attempt = None, self._attempt + 1  # the coordinator has moved
        identity = self._context.group.metadata
        if identity.generation_id <= 0:
            self._result = None  # of an earlier membership
            self._computation_call.cancel()
            return ()
        if destination is None or self._in_flight_to is not None or self._computation_call.running:
            return ()
        fields = {
            "group_id": self._context.config.group_id,
            "member_id": identity.member_id,
            "member_epoch": identity.generation_id,
        }
        if self._result is not None:
            result, self._result = self._result, None
            message = messages.ConsumerGroupInstallAssignmentRequest(**fields, **result)
            return (self._request(message, destination, self._handle_installed),)
        if not self._computation_requested:
            return ()
        message = messages.ConsumerGroupPrepareAssignmentRequest(**fields)
        return (self._request(message, destination, self._handle_prepared),)

    def _request(
        self, message: Any, destination: ToNode, on_response: Callable[[Any], None]
    ) -> UnsentRequest:
        # The next heartbeat response decides whether a computation is still requested.
        self._computation_requested = False
        self._in_flight_to = destination
        self._attempt += 1
        attempt = self._attempt

        def done(response: ClientResponse) -> None:
            if attempt == self._attempt:
                self._in_flight_to = None
                if self._context.group.metadata.generation_id > 0:
                    on_response(response.message)

        def failed(error: Exception) -> None:
            if attempt == self._attempt:
                self._in_flight_to = None
                log.info("%s failed: %s", message.name, error)
                if isinstance(error, UnexpectedResponseError):
                    self._context.raise_in_poll(error)

        return self._context.request(message, destination, on_response=done, on_error=failed)

    # --- responses -----------------------------------------------------------------------------

    def _handle_prepared(self, message: Any) -> None:
        if message.error_code:
            log.info(
                "group %s: the coordinator did not return the state of the group: %s",
                self._context.config.group_id,
                for_code(message.error_code).__name__,
            )
            return
        self._computation_call.start(lambda: self._compute(message))

    def _handle_result(self, computed: tuple[dict[str, Any], Exception | None]) -> None:
        self._result, error = computed
        if error is not None:
            self._report(f"assign() of assignor {self._result.pop('assignor')} failed", error)

    def _handle_installed(self, message: Any) -> None:
        if message.error_code == InvalidAssignmentError.errno:
            self._context.raise_in_poll(InvalidAssignmentError(message.error_message or ""))
        elif message.error_code:
            log.info(
                "group %s: the coordinator rejected the computed assignment: %s",
                self._context.config.group_id,
                for_code(message.error_code).__name__,
            )

    def _compute(self, message: Any) -> tuple[dict[str, Any], Exception | None]:
        """Run the assignor; report its error to the application and to the coordinator."""
        name = message.assignor_name
        names = {topic.topic_id: topic.topic_name for topic in message.topics}
        topics = {topic.topic_name: topic.num_partitions for topic in message.topics}
        members = {each.member_id: _member(each, names) for each in message.members}
        result: dict[str, Any] = {"group_epoch": message.group_epoch, "members": []}
        try:
            assignment = self._assignors[name].assign(members, topics)
            ids = {topic_name: topic_id for topic_id, topic_name in names.items()}
            encoded = [
                _encoded(member_id, given, ids) for member_id, given in sorted(assignment.items())
            ]
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            failed = {"error_code": _ASSIGNOR_FAILED, "error_message": repr(error)}
            return {**result, **failed, "assignor": name}, error
        log.info("group %s: computed an assignment with %s", self._context.config.group_id, name)
        return {**result, "error_code": 0, "error_message": None, "members": encoded}, None

    def _report(self, what: str, error: Exception) -> None:
        log.warning("group_local_assignors: %s", what, exc_info=error)
        wrapped = LocalAssignorError(f"{what}: {error!r}")
        wrapped.__cause__ = error
        self._context.raise_in_poll(wrapped)


def _member(entry: Any, names: dict[Any, str]) -> GroupMember:
    def partitions(entries: Any) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(names[each.topic_id], number)
            for each in entries
            if each.topic_id in names  # the topic may no longer be subscribed
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
    entry = messages.ConsumerGroupInstallAssignmentRequest.Member
    assignment = given if isinstance(given, MemberAssignment) else MemberAssignment(given)
    version = int(assignment.metadata_version)
    if not 0 <= version <= _NEWEST_VERSION:
        raise ValueError(f"metadata_version must be from 0 to {_NEWEST_VERSION}, got {version}")
    error = int(assignment.error)
    if not 0 <= error <= _HIGHEST_ERROR:
        raise ValueError(f"error must be from 0 to {_HIGHEST_ERROR}, got {error}")
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
