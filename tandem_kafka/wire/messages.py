"""All messages that this client uses: those of kafka-python, and additional ones.

The additional messages are defined by the JSON schema files in this folder, with kafka-python's
message class. kafka-python reads a schema when it defines a message, so messages are imported and
defined on first use.
"""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

import weakref
from importlib import import_module
from typing import Any, Final

_GROUP: Final = "kafka.protocol.consumer.group"
_OFFSETS: Final = "kafka.protocol.consumer.offsets"
_SASL: Final = "kafka.protocol.sasl"

#: Where kafka-python has the messages of an API.
_OF_KAFKA_PYTHON: Final = {
    "ApiVersions": "kafka.protocol.metadata.api_versions",
    "Fetch": "kafka.protocol.consumer.fetch",
    "FindCoordinator": "kafka.protocol.metadata.find_coordinator",
    "Heartbeat": _GROUP,
    "JoinGroup": _GROUP,
    "LeaveGroup": _GROUP,
    "ListOffsets": _OFFSETS,
    "Metadata": "kafka.protocol.metadata.metadata",
    "OffsetCommit": _GROUP,
    "OffsetFetch": _GROUP,
    "OffsetForLeaderEpoch": _OFFSETS,
    "SaslAuthenticate": _SASL,
    "SaslHandshake": _SASL,
    "SyncGroup": _GROUP,
}
#: What it lacks.
_ADDITIONAL: Final = frozenset(
    {
        # KIP-848, and client-side assignment, which no released broker supports.
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupInstallAssignment",
        "ConsumerGroupPrepareAssignment",
        # KIP-932
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
        "DescribeShareGroupOffsets",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        # KIP-714
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    }
)
_KINDS: Final = ("Request", "Response")
_definitions: Final[dict[str, dict[str, Any]]] = {}


def __getattr__(name: str) -> Any:
    api = next((name.removesuffix(kind) for kind in _KINDS if name.endswith(kind)), name)
    if api in _ADDITIONAL and name != api:
        globals().update(_defined(api))
        return globals()[name]
    if api not in _OF_KAFKA_PYTHON or name == api:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_OF_KAFKA_PYTHON[api]), name)
    return found


def _defined(api: str) -> dict[str, Any]:
    """Define the request and the response of an API.

    Invariant: no lock, which an interrupt or a fork could leave locked. Of threads that ask
    together, each defines them, and the first definition counts; kafka-python finds responses
    through a registry of weak references.
    """
    from kafka.protocol.api_header import ResponseClassRegistry  # noqa: PLC0415 - on first use
    from kafka.protocol.api_message import ApiMessage  # noqa: PLC0415 - likewise

    kind: Any = type(ApiMessage)
    with schemas_may_be_read():
        made = {
            name: kind(name, (ApiMessage,), {"__module__": __name__}, load_json=__package__)
            for name in (api + kind for kind in _KINDS)
        }
    if api == "ShareFetch":
        from tandem_kafka.wire.record_views import view_records  # noqa: PLC0415 - likewise

        view_records(made["ShareFetchResponse"])
    made = _definitions.setdefault(api, made)
    ResponseClassRegistry.register_response_class(weakref.proxy(made[f"{api}Response"]))
    return made


def __dir__() -> list[str]:
    apis = {*_OF_KAFKA_PYTHON, *_ADDITIONAL}
    return sorted({*globals(), *(api + kind for api in apis for kind in _KINDS)})
