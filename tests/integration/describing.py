"""What a coordinator tells of a group to who asks for its description."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse

from tandem_kafka.wire.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tests.integration.lines import Line

__all__ = ["described", "described_as_classic"]


def described(line: Line, group: str) -> Any:
    """Ask for the description of a KIP-848 group; returns what is answered about it."""
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (told,) = line.ask(request, ConsumerGroupDescribeResponse, 1).groups
    return told


def described_as_classic(line: Line, group: str, version: int = 6) -> Any:
    """Ask for the description of a classic group; returns what is answered about it."""
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
    (told,) = line.ask(request, DescribeGroupsResponse, version).groups
    return told
