"""The response to requests of KIP-848 while the protocol is disabled."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.apis.api import error_code
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
)

__all__ = ["reject_as_not_enabled"]


def reject_as_not_enabled(call: Call) -> Any:
    """Return UNSUPPORTED_VERSION in the response to the request."""
    code = error_code(errors.UnsupportedVersionError)
    if call.api_key != ConsumerGroupDescribeRequest.API_KEY:
        return ConsumerGroupHeartbeatResponse(throttle_time_ms=0, error_code=code)
    group = ConsumerGroupDescribeResponse.DescribedGroup
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[group(error_code=code, group_id=name) for name in call.request.group_ids],
    )
