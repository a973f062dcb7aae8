"""Descriptions of groups by their coordinator."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse

from tandem_kafka.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tests.integration.connections import Connection

__all__ = ["classic_description_of", "description_of"]


def description_of(connection: Connection, group: str) -> Any:
    """Return the description of a KIP-848 group."""
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (group,) = connection.exchange(request, ConsumerGroupDescribeResponse, 1).groups
    return group


def classic_description_of(connection: Connection, group: str, version: int = 6) -> Any:
    """Return the description of a classic group."""
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
    (group,) = connection.exchange(request, DescribeGroupsResponse, version).groups
    return group
