"""FindCoordinator: the coordinator of a group or of a transactional id."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.call import Call

_TRANSACTION = 1


def _handle(call: Call) -> Any:
    if call.version < 4:
        found = _find(call, call.request.key)
        return FindCoordinatorResponse(throttle_time_ms=0, error_message=None, **found)
    entry = FindCoordinatorResponse.Coordinator
    coordinators = [
        entry(key=key, error_message=None, **_find(call, key))
        for key in call.request.coordinator_keys
    ]
    return FindCoordinatorResponse(throttle_time_ms=0, coordinators=coordinators)


def _find(call: Call, key: str) -> dict[str, Any]:
    cluster = call.cluster
    transactional = call.version >= 1 and call.request.key_type == _TRANSACTION
    find = cluster.transaction_coordinator_of if transactional else cluster.coordinator_of
    broker = cluster.brokers.get(find(key))
    if broker is None or not broker.up:
        missing = error_code(errors.CoordinatorNotAvailableError)
        return {"error_code": missing, "node_id": -1, "host": "", "port": -1}
    return {"error_code": 0, "node_id": broker.node_id, "host": broker.host, "port": broker.port}


API = Api(FindCoordinatorRequest, (0, 6), _handle)
