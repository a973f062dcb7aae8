"""ConsumerGroupHeartbeat: which fields are sent, and when.

A field is sent when it has changed since it was last sent; a member that joins, or that does not
know whether the coordinator got its last heartbeat, sends them all.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tandem_kafka.errors import (
    InvalidRegularExpressionError,
    KafkaError,
    UnsupportedVersionError,
    for_code,
)
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.consumer.local_assignment import Announcement
from tandem_kafka.request_managers.membership.consumer.target import Assignment
from tandem_kafka.runtime import Random
from tandem_kafka.shared.subscription import SubscriptionKind
from tandem_kafka.types import LeaveOperation
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest

__all__ = [
    "JOIN_EPOCH",
    "LEAVE_EPOCH",
    "STATIC_LEAVE_EPOCH",
    "HeartbeatFields",
    "epoch_to_leave",
    "error_of",
    "new_member_id",
    "with_advice",
]

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

INVALID_REGULAR_EXPRESSION = 128

#: Expressions are resolved by the coordinator from this version on.
FIRST_VERSION_WITH_REGEX = 1


def epoch_to_leave(operation: LeaveOperation, *, static: bool) -> int | None:
    """Return the epoch of the last heartbeat, None if there is to be none."""
    if not static:
        return None if operation is LeaveOperation.REMAIN else LEAVE_EPOCH
    return LEAVE_EPOCH if operation is LeaveOperation.LEAVE else STATIC_LEAVE_EPOCH


@dataclass(slots=True)
class _Sent:
    rebalance_timeout_ms: int | None = None
    subscribed: tuple[frozenset[str], str] | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    announced: tuple[Announcement, ...] = ()


class HeartbeatFields:
    """Remembers what the coordinator has been told."""

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
        """Whether the last heartbeat arrived is not known: the next one says everything."""
        self._sent = _Sent()

    @property
    def outdated(self) -> bool:
        """True when the coordinator knows another subscription or announcement than today's."""
        sent = self._sent
        if sent.subscribed is None:
            return False  # the next heartbeat says everything, when it is due
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
        owned: Assignment,
        claimed: Assignment | None = None,
        *,
        joining: bool = False,
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat; `owned` is what has been taken over.

        Whoever says everything again, not because it has something to acknowledge, says `claimed`.
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
        """Return the heartbeat that says only who we are: most are of this kind."""
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
            # Names and expression are one subscription and go together: an empty expression
            # takes an earlier one back, as no names take back earlier names.
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
        owned: Assignment,
        reported: Assignment | None,
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


def error_of(message: Any) -> KafkaError:
    """Return the error of an answer, with the coordinator's own words."""
    text = message.error_message or ""
    if message.error_code == INVALID_REGULAR_EXPRESSION:
        return InvalidRegularExpressionError(text)
    error: KafkaError = for_code(message.error_code)(text)
    return error


def with_advice(error: UnsupportedVersionError, context: ManagerContext) -> UnsupportedVersionError:
    """Say what to do where the cluster does not know the request."""
    if context.config.group_local_assignors:
        advice = (
            "the cluster does not let members compute an assignment, as no released broker does; "
            "leave group_local_assignors out"
        )
    elif context.subscription.regex is not None:
        advice = (
            "the cluster cannot resolve a regular expression (SubscriptionPattern needs "
            "ConsumerGroupHeartbeat version 1); subscribe to names or a Python pattern"
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
    """Return an id that nobody else has; the client makes it (KIP-1082)."""
    raw = UUID(int=random.getrandbits(128), version=4).bytes
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
