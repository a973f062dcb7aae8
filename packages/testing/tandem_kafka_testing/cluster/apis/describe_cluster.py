"""DescribeCluster: the brokers and the controller."""

from __future__ import annotations

from typing import Any, Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

from tandem_kafka_testing.cluster.apis.api import Api
from tandem_kafka_testing.cluster.apis.metadata import CLUSTER_ID
from tandem_kafka_testing.cluster.call import Call

_BROKER: Final = DescribeClusterResponse.DescribeClusterBroker
#: No permissions are asked for.
_UNKNOWN: Final = -(2**31)
_BROKERS: Final = 1


def _handle(call: Call) -> Any:
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=CLUSTER_ID,
        controller_id=call.broker.node_id,
        brokers=[
            _BROKER(broker_id=b.node_id, host=b.host, port=b.port, rack=b.rack, is_fenced=False)
            for b in call.cluster.brokers.values()
            if b.up
        ],
        cluster_authorized_operations=_UNKNOWN,
    )


API = Api(DescribeClusterRequest, (0, 2), _handle)
