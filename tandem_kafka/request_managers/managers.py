"""All request managers of one consumer, in the order in which they are polled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tandem_kafka.request_managers.base import RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.fetch_request_manager import FetchRequestManager
from tandem_kafka.request_managers.membership.interface import Membership
from tandem_kafka.request_managers.membership.ungrouped import UngroupedMembership
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.offsets_request_manager import OffsetsRequestManager
from tandem_kafka.request_managers.positions_request_manager import PositionsRequestManager
from tandem_kafka.request_managers.telemetry.telemetry_request_manager import (
    Offers,
    TelemetryRequestManager,
)
from tandem_kafka.request_managers.topic_metadata_request_manager import TopicMetadataRequestManager
from tandem_kafka.request_managers.validation_request_manager import ValidationRequestManager

if TYPE_CHECKING:
    from tandem_kafka.request_managers.commit_request_manager import CommitRequestManager
    from tandem_kafka.request_managers.committed_offsets_request_manager import (
        CommittedOffsetsRequestManager,
    )
    from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager


@dataclass(frozen=True, slots=True)
class GroupManagers:
    """The managers of a consumer with a `group_id`."""

    coordinator: CoordinatorRequestManager
    commit: CommitRequestManager
    committed: CommittedOffsetsRequestManager
    membership: Membership


@dataclass(frozen=True, slots=True)
class RequestManagers:
    """The managers by their subjects."""

    membership: Membership
    group: GroupManagers | None
    list_offsets: OffsetsRequestManager
    positions: PositionsRequestManager
    validation: ValidationRequestManager
    fetch: FetchRequestManager
    topic_metadata: TopicMetadataRequestManager
    metadata: MetadataRefresher
    telemetry: TelemetryRequestManager

    @classmethod
    def build(cls, context: ManagerContext, offers: Offers) -> RequestManagers:
        """Create the managers for a configuration.

        Args:
            context: What the managers share.
            offers: Tells whether the last connected broker offers an API, by its key.
        """
        metadata = MetadataRefresher(context)
        group = _build_group(context, metadata) if context.config.group_id is not None else None
        list_offsets = OffsetsRequestManager(context, metadata)
        committed = group.committed if group is not None else None
        positions = PositionsRequestManager(context, list_offsets, committed)
        return cls(
            membership=UngroupedMembership(context) if group is None else group.membership,
            group=group,
            list_offsets=list_offsets,
            positions=positions,
            validation=ValidationRequestManager(context, metadata, positions),
            fetch=FetchRequestManager(context, metadata, positions),
            topic_metadata=TopicMetadataRequestManager(context),
            metadata=metadata,
            telemetry=TelemetryRequestManager(context, offers),
        )

    @property
    def added(self) -> int:
        """How many results of fetches are or were in the buffer."""
        return self.fetch.added

    def end_changed_fetches(self) -> None:
        """End the standing fetches if anything has changed."""
        self.fetch.end_changed_fetches()

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
    from tandem_kafka.request_managers.commit_request_manager import CommitRequestManager  # noqa: PLC0415
    from tandem_kafka.request_managers.committed_offsets_request_manager import (  # noqa: PLC0415
        CommittedOffsetsRequestManager,
    )
    from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager  # noqa: PLC0415
    from tandem_kafka.request_managers.membership.choice import choose_membership  # noqa: PLC0415

    group_id = context.config.group_id or ""
    coordinator = CoordinatorRequestManager(context, group_id)
    refresh = metadata.refresh
    commit = CommitRequestManager(context, coordinator, refresh)
    membership = choose_membership(context, coordinator, metadata)
    commit.on_rejected(membership.commit_rejected)
    return GroupManagers(
        coordinator=coordinator,
        commit=commit,
        committed=CommittedOffsetsRequestManager(context, coordinator, refresh),
        membership=membership,
    )
