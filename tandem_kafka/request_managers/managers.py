"""All request managers of one consumer, in the order in which they are polled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tandem_kafka.request_managers.base import RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.fetch_manager import FetchManager
from tandem_kafka.request_managers.list_offsets import ListOffsetsManager
from tandem_kafka.request_managers.membership.interface import Membership
from tandem_kafka.request_managers.membership.ungrouped import UngroupedMembership
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.position_manager import PositionsManager
from tandem_kafka.request_managers.telemetry.telemetry_manager import Offers, TelemetryManager
from tandem_kafka.request_managers.topic_metadata import TopicMetadataManager
from tandem_kafka.request_managers.validation import ValidationManager

if TYPE_CHECKING:
    from tandem_kafka.request_managers.commit_manager import CommitManager
    from tandem_kafka.request_managers.committed_offsets import CommittedOffsetsManager
    from tandem_kafka.request_managers.coordinator import CoordinatorManager


@dataclass(frozen=True, slots=True)
class GroupManagers:
    """The managers of a consumer with a `group_id`."""

    coordinator: CoordinatorManager
    commit: CommitManager
    committed: CommittedOffsetsManager
    membership: Membership


@dataclass(frozen=True, slots=True)
class RequestManagers:
    """The managers by their subjects."""

    membership: Membership
    group: GroupManagers | None
    list_offsets: ListOffsetsManager
    positions: PositionsManager
    validation: ValidationManager
    fetch: FetchManager
    topic_metadata: TopicMetadataManager
    metadata: MetadataRefresher
    telemetry: TelemetryManager

    @classmethod
    def build(cls, context: ManagerContext, offers: Offers) -> RequestManagers:
        """Create the managers for a configuration.

        Args:
            context: What the managers share.
            offers: Tells whether the last connected broker offers an API, by its key.
        """
        metadata = MetadataRefresher(context)
        group = _build_group(context, metadata) if context.config.group_id is not None else None
        list_offsets = ListOffsetsManager(context, metadata)
        committed = group.committed if group is not None else None
        positions = PositionsManager(context, list_offsets, committed)
        return cls(
            membership=UngroupedMembership(context) if group is None else group.membership,
            group=group,
            list_offsets=list_offsets,
            positions=positions,
            validation=ValidationManager(context, metadata, positions),
            fetch=FetchManager(context, metadata, positions),
            topic_metadata=TopicMetadataManager(context),
            metadata=metadata,
            telemetry=TelemetryManager(context, offers),
        )

    @property
    def added(self) -> int:
        """How many results of fetches are or were in the buffer."""
        return self.fetch.added

    def end_changed_orders(self) -> None:
        """End the standing fetches if anything has changed."""
        self.fetch.end_changed_orders()

    def __iter__(self) -> Iterator[RequestManager]:
        """Yield managers that start work in others before those others."""
        yield self.positions
        yield self.membership
        if self.group is not None:
            yield self.group.commit
            yield self.group.committed
            yield self.group.coordinator
        yield self.list_offsets
        yield self.validation
        yield self.fetch
        yield self.topic_metadata
        yield self.metadata
        yield self.telemetry


def _build_group(context: ManagerContext, metadata: MetadataRefresher) -> GroupManagers:
    # Not every consumer has a group.
    from tandem_kafka.request_managers.commit_manager import CommitManager  # noqa: PLC0415
    from tandem_kafka.request_managers.committed_offsets import (  # noqa: PLC0415
        CommittedOffsetsManager,
    )
    from tandem_kafka.request_managers.coordinator import CoordinatorManager  # noqa: PLC0415
    from tandem_kafka.request_managers.membership.choice import choose_membership  # noqa: PLC0415

    group_id = context.config.group_id or ""
    coordinator = CoordinatorManager(context, group_id)
    refresh = metadata.refresh
    commit = CommitManager(context, coordinator, refresh)
    membership = choose_membership(context, coordinator, metadata)
    commit.on_rejected(membership.commit_rejected)
    return GroupManagers(
        coordinator=coordinator,
        commit=commit,
        committed=CommittedOffsetsManager(context, coordinator, refresh),
        membership=membership,
    )
