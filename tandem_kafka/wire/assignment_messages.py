"""Messages of client-side assignment in KIP-848 groups, which kafka-python lacks."""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "tandem_kafka.wire"


with schemas_may_be_read():

    class ConsumerGroupDescribeRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """A request for the state of KIP-848 groups."""

    class ConsumerGroupDescribeResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[call-arg]
        """The state of KIP-848 groups."""

    class ConsumerGroupPrepareAssignmentRequest(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """A request for the data from which a member computes the assignment of its group.

        No released broker supports it.
        """

    class ConsumerGroupPrepareAssignmentResponse(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """The data from which a member computes the assignment."""

    class ConsumerGroupInstallAssignmentRequest(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """The computed assignment. No released broker supports it."""

    class ConsumerGroupInstallAssignmentResponse(  # type: ignore[call-arg]
        ApiMessage, load_json=_SCHEMAS
    ):
        """Whether the coordinator has accepted the assignment."""
