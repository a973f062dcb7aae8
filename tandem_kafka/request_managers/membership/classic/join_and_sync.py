"""The requests of a classic member: JoinGroup, SyncGroup and LeaveGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tandem_kafka.assignors.classic import ClassicAssignors
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import ToNode, UnsentRequest
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.classic.assignor_calls import MemberView
from tandem_kafka.wire.messages import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

PROTOCOL_TYPE = "consumer"
#: Added to the rebalance timeout, because the response to JoinGroup waits for the slowest member.
JOIN_GRACE_MS = 5_000


class ClassicRequests:
    """Builds the requests from the membership and the owned partitions."""

    def __init__(self, context: ManagerContext, assignors: ClassicAssignors) -> None:
        self._context = context
        self._assignors = assignors

    @property
    def join_timeout_ms(self) -> int:
        """The timeout of JoinGroup, whose response waits for the slowest member.

        It is that of the Java client and of kafka-python: the coordinator may hold the response for
        the longest rebalance timeout of the group, and that is how long the others may take. An
        earlier timeout would close the connection in every slow rebalance, and begin another one.
        If the response is lost although the connection lives, which needs a faulty broker or proxy,
        the coordinator removes the member after its session, and the others continue without it.
        """
        config = self._context.config
        return max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_GRACE_MS)

    def view(self) -> MemberView:
        """Return the current data of the member."""
        subscription = self._context.subscription
        owned = frozenset(subscription.assigned) if self._assignors.cooperative else frozenset()
        generation = self._context.group.metadata.generation_id
        return MemberView(subscription.topics, owned, generation, self._context.config.client_rack)

    def join(self, described: Mapping[str, bytes], reason: str) -> JoinGroupRequest:
        """Return JoinGroup with the description of each assignor."""
        config, member = self._context.config, self._context.group.metadata
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            group_id=member.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol(name=name, metadata=data) for name, data in described.items()],
            reason=reason,
        )

    def sync(self, joined: Any, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """Return SyncGroup; that of the leader has the assignments of all members."""
        entry = SyncGroupRequest.SyncGroupRequestAssignment
        member = self._context.group.metadata
        return SyncGroupRequest(
            group_id=member.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=member.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                entry(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )

    def leave(
        self, destination: ToNode, reason: str, future: Completion[Any], member_id: str
    ) -> UnsentRequest:
        """Return LeaveGroup, with the reason from version 5 on (KIP-800).

        `future` is completed whatever the outcome: the member has left.
        """
        member = self._context.group.metadata
        static = member.group_instance_id is not None
        identity = LeaveGroupRequest.MemberIdentity
        message = LeaveGroupRequest(
            group_id=member.group_id,
            member_id=member_id,
            members=[
                identity(
                    member_id=member_id,
                    group_instance_id=member.group_instance_id,
                    reason=reason,
                )
            ],
            # A static member is identified by its instance id, which older versions lack.
            min_version=3 if static else 0,
        )
        return self._context.request(
            message,
            destination,
            on_response=lambda _: future.complete(None),
            on_error=lambda _: future.complete(None),
        )
