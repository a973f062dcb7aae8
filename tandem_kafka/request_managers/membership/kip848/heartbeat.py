"""The fields of ConsumerGroupHeartbeat.

A field is sent if it has changed since it was last sent. A member sends all fields when it joins,
or if it does not know whether the coordinator received its last heartbeat.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from uuid import UUID

from tandem_kafka.config import Config
from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import (
    InvalidRegularExpressionError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.group_errors import group_error
from tandem_kafka.request_managers.membership.kip848.local_assignment import Announcement
from tandem_kafka.request_managers.membership.kip848.target import TargetAssignment
from tandem_kafka.runtime import Random
from tandem_kafka.state.subscription import SubscriptionKind
from tandem_kafka.types import LeaveOperation
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

INVALID_REGULAR_EXPRESSION = 128

#: From this version on, the coordinator resolves regular expressions.
FIRST_VERSION_WITH_REGEX = 1


def epoch_to_leave(operation: LeaveOperation, *, static: bool) -> int | None:
    """Return the epoch of the final heartbeat, or None if none must be sent."""
    if not static:
        return None if operation is LeaveOperation.REMAIN else LEAVE_EPOCH
    return LEAVE_EPOCH if operation is LeaveOperation.LEAVE else STATIC_LEAVE_EPOCH


@dataclass()
class _Sent:
    rebalance_timeout_ms: int | None = None
    subscribed: tuple[frozenset[str], str] | None = None
    assignor: str | None = None
    owned: TargetAssignment | None = None
    announced: tuple[Announcement, ...] = ()


class HeartbeatFields:
    """Builds heartbeats, and remembers which values have been sent."""

    def __init__(
        self,
        context: ManagerContext,
        announced: Callable[[], tuple[Announcement, ...]] = tuple,
    ) -> None:
        self._context = context
        self._announced = announced
        self._sent = _Sent()
        self._last_plain: ConsumerGroupHeartbeatRequest | None = None

    def forget(self) -> None:
        """Send all fields with the next heartbeat, because the last one may not have arrived."""
        self._sent = _Sent()

    @property
    def outdated(self) -> bool:
        """True if the subscription or the announced assignors have changed since they were sent."""
        sent = self._sent
        if sent.subscribed is None:
            return False  # the next heartbeat sends all fields when it is due
        return sent.subscribed != self._subscribed or sent.announced != self._announced()

    @property
    def _subscribed(self) -> tuple[frozenset[str], str]:
        subscription = self._context.subscription
        if subscription.kind is SubscriptionKind.REGEX:
            return frozenset(), subscription.regex or ""
        return subscription.topics, ""

    def message(
        self,
        member_id: str,
        epoch: int,
        owned: TargetAssignment,
        claimed: TargetAssignment | None = None,
        *,
        joining: bool = False,
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat.

        Args:
            member_id: The member id.
            epoch: The member epoch, or the epoch to leave.
            owned: The applied assignment.
            claimed: Sent in place of `owned` if all fields are repeated without a change of
                `owned`. It includes the assignment that is being applied.
            joining: Whether the member joins.
        """
        config = self._context.config
        fields: dict[str, Any] = {}
        if epoch >= 0:
            if joining:
                self._sent = _Sent()
                fields["rack_id"] = config.client_rack or None
            self._add_changed(fields)
            repeating = claimed is not None and self._sent.owned is None
            self._add_owned(fields, owned, claimed if repeating else owned, joining=joining)
        if not fields:
            return self.plain(member_id, epoch)
        has_regex = fields.get("subscribed_topic_regex")
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=config.group_instance_id,
            **fields,
            min_version=FIRST_VERSION_WITH_REGEX if has_regex else 0,
        )

    def plain(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat that only identifies the member, as most of them do.

        Invariant: the transport may repeat it at any time, so it announces nothing new.
        """
        config, plain = self._context.config, self._last_plain
        if plain is None or (plain.member_id, plain.member_epoch) != (member_id, epoch):
            plain = self._last_plain = ConsumerGroupHeartbeatRequest(
                group_id=config.group_id,
                member_id=member_id,
                member_epoch=epoch,
                instance_id=config.group_instance_id,
            )
        return plain

    def _add_changed(self, fields: dict[str, Any]) -> None:
        config, sent = self._context.config, self._sent
        if sent.rebalance_timeout_ms != config.max_poll_interval_ms:
            sent.rebalance_timeout_ms = config.max_poll_interval_ms
            fields["rebalance_timeout_ms"] = config.max_poll_interval_ms
        if self._subscribed != sent.subscribed:
            # Names and regular expression are sent together. For a broker, one would be enough, but
            # librdkafka's mock broker crashes without the other. An empty value cancels an earlier.
            sent.subscribed = topics, regex = self._subscribed
            fields["subscribed_topic_names"] = sorted(topics)
            fields["subscribed_topic_regex"] = regex
        if config.group_remote_assignor is not None and sent.assignor is None:
            sent.assignor = fields["server_assignor"] = config.group_remote_assignor
        announced = self._announced()
        if announced != sent.announced:
            sent.announced = announced
            fields["client_assignors"] = [each.encoded() for each in announced]

    def _add_owned(
        self,
        fields: dict[str, Any],
        owned: TargetAssignment,
        reported: TargetAssignment | None,
        *,
        joining: bool,
    ) -> None:
        if self._sent.owned == owned and not joining:
            return
        self._sent.owned = owned
        entry = ConsumerGroupHeartbeatRequest.TopicPartitions
        partitions = {} if joining or reported is None else reported.partitions
        fields["topic_partitions"] = [
            entry(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in sorted(partitions.items())
        ]


def error_of(message: Any, config: Config) -> KafkaError:
    """Return the error of a response, with the coordinator's message."""
    if message.error_code == INVALID_REGULAR_EXPRESSION:
        return InvalidRegularExpressionError(message.error_message or "")
    return group_error(message.error_code, config, message.error_message)


def with_advice(error: Exception, context: ManagerContext) -> Exception:
    """Return the error of a heartbeat, with the next step where the coordinator does not say it."""
    if isinstance(error, UnsupportedVersionError):
        return _unsupported(error, context)
    if isinstance(error, TopicAuthorizationFailedError):  # it does not name the topics
        return context.topic_troubles.denied(context.subscription.topics)
    return error


def _unsupported(error: Exception, context: ManagerContext) -> UnsupportedVersionError:
    if context.config.group_local_assignors:
        advice = (
            "the cluster does not support client-side assignors with KIP-848, and no released "
            "broker does; remove group_local_assignors"
        )
    elif context.subscription.regex is not None:
        advice = (
            "the cluster cannot resolve regular expressions (SubscriptionPattern needs "
            "ConsumerGroupHeartbeat version 1); subscribe to topic names, a str or a re.Pattern"
        )
    else:
        advice = (
            "the cluster does not support the consumer group protocol (KIP-848); "
            "set group_protocol='classic'"
        )
    found = UnsupportedVersionError(f"{advice}: {error}")
    found.__cause__ = error
    return found


def new_member_id(random: Random) -> str:
    """Return a unique member id, which the client generates (KIP-1082)."""
    raw = UUID(int=random.getrandbits(128), version=4).bytes
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
