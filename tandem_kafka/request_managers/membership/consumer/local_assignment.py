"""A member computes its group's assignment, when the coordinator asks it to.

    signal      the answer to a heartbeat says that we are to compute
    prepare     ConsumerGroupPrepareAssignment is answered with the group's state
    compute     on the thread of the user's code, while heartbeats go on
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
from tandem_kafka.request_managers.membership.consumer.target import AssignorMetadata
from tandem_kafka.request_managers.user_code import PendingCall
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


class _Described(NamedTuple):
    """What came of asking one assignor for its metadata."""

    name: str
    announcement: Announcement
    error: Exception | None


class LocalAssignment:
    """Computes for the group when asked to, one assignment at a time.

    Every call of an assignor runs where the user's code runs, never on the network thread.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        instances = [
            each() if isinstance(each, type) else each
            for each in context.config.group_local_assignors
        ]
        self._assignors: dict[str, PartitionAssignor] = {each.name: each for each in instances}
        self._announcements: dict[str, Announcement] = {}
        #: Those whose metadata cannot be had: reported once, not with every heartbeat.
        self._failed_assignors: set[str] = set()
        self._computation_requested = False
        #: What an assignor was told of last.
        self._last_notification: tuple[frozenset[TopicPartition], AssignorMetadata] | None = None
        #: What is to be installed, but for who we are.
        self._result: dict[str, Any] | None = None
        self._attempt = 0
        self._in_flight_to: ToNode | None = None
        code = context.user_code
        self._description_call = PendingCall(code, self._handle_descriptions, context.raise_in_poll)
        self._computation_call = PendingCall(code, self._handle_result, context.raise_in_poll)

    # --- what the assignors announce -----------------------------------------------------------

    @property
    def described(self) -> bool:
        """True once every assignor has said what a heartbeat announces."""
        return self._announcements.keys() == self._assignors.keys()

    def describe(self) -> None:
        """Ask the assignors for their metadata; the next heartbeats say what they answer."""
        if self._assignors and not self._description_call.running:
            self._description_call.start(self._describe)

    def announced(self) -> tuple[Announcement, ...]:
        """Return what a heartbeat says of the assignors."""
        return tuple(self._announcements.values())

    def _describe(self) -> list[_Described]:
        described = []
        for name, assignor in self._assignors.items():
            try:
                described.append(_Described(name, _announced(assignor), None))
            except Exception as error:  # noqa: BLE001 - whatever the user's code raises
                described.append(_Described(name, _announced(assignor, metadata=b""), error))
        return described

    def _handle_descriptions(self, described: list[_Described]) -> None:
        """Take the answers; an assignor that failed announces what it did before."""
        for name, announcement, error in described:
            if error is None:
                self._announcements[name] = announcement
                self._failed_assignors.discard(name)
                continue
            self._announcements.setdefault(name, announcement)
            if name not in self._failed_assignors:
                self._failed_assignors.add(name)
                self._report(f"{name}: its metadata() failed", error)

    # --- what the coordinator says -------------------------------------------------------------

    def handle_heartbeat(self, message: Any) -> None:
        """Take in the answer to a heartbeat."""
        self._computation_requested = message.should_compute_assignment

    def forget(self) -> None:
        """A new membership: whatever comes of it is news."""
        self._last_notification = None

    def notify_assignor(
        self,
        partitions: frozenset[TopicPartition],
        metadata: AssignorMetadata | None,
        then: Callable[[], None],
    ) -> None:
        """Tell an assignor what was computed for this member, unless it knows; then call `then`."""
        assignor = self._assignors.get(metadata.assignor) if metadata is not None else None
        if metadata is None or assignor is None:
            self._last_notification = None  # what it computes next is news, whatever it is
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
            self._report(f"{metadata.assignor}: its on_assignment() failed", error)
            then()

        self._context.user_code.run(
            lambda: assignor.on_assignment(assignment), lambda _: then(), failed
        )

    @property
    def active(self) -> bool:
        """True when there is anything to compute, to bring or to wait for."""
        return (
            self._computation_requested
            or self._result is not None
            or self._in_flight_to is not None
        )

    def poll(self, destination: ToNode | None) -> tuple[UnsentRequest, ...]:
        """Ask for the group's state, or bring what was computed."""
        if self._in_flight_to not in (None, destination):
            self._in_flight_to, self._attempt = None, self._attempt + 1  # the group is elsewhere
        identity = self._context.group.metadata
        if identity.generation_id <= 0:
            self._result = None  # of a membership that is over
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
            message = ConsumerGroupInstallAssignmentRequest(**fields, **result)
            return (self._request(message, destination, self._handle_installed),)
        if not self._computation_requested:
            return ()
        message = ConsumerGroupPrepareAssignmentRequest(**fields)
        return (self._request(message, destination, self._handle_prepared),)

    def _request(
        self, message: Any, destination: ToNode, on_response: Callable[[Any], None]
    ) -> UnsentRequest:
        # Until the next heartbeat's answer nobody knows whether we are still to compute.
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
                log.info("%s: no result: %s", message.name, error)
                if isinstance(error, UnexpectedResponseError):
                    self._context.raise_in_poll(error)

        return self._context.request(message, destination, on_response=done, on_error=failed)

    # --- answers -------------------------------------------------------------------------------

    def _handle_prepared(self, message: Any) -> None:
        if message.error_code:
            log.info("group's state not told: %s", for_code(message.error_code).__name__)
            return
        self._computation_call.start(lambda: self._compute(message))

    def _handle_result(self, computed: tuple[dict[str, Any], Exception | None]) -> None:
        self._result, error = computed
        if error is not None:
            self._report(f"{self._result.pop('assignor')}: its assign() failed", error)

    def _handle_installed(self, message: Any) -> None:
        if message.error_code == InvalidAssignmentError.errno:
            self._context.raise_in_poll(InvalidAssignmentError(message.error_message or ""))
        elif message.error_code:
            log.info("assignment dropped: %s", for_code(message.error_code).__name__)

    def _compute(self, message: Any) -> tuple[dict[str, Any], Exception | None]:
        """Run the assignor; what it raises goes to the application and to the coordinator."""
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
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises
            failed = {"error_code": _ASSIGNOR_FAILED, "error_message": repr(error)}
            return {**result, **failed, "assignor": name}, error
        log.info("group %s: assigned with %s", self._context.config.group_id, name)
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
