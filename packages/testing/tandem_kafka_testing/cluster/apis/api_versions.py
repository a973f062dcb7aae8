"""ApiVersions: the supported requests and their versions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kafka import errors

from tandem_kafka.wire.framing import encode_message
from tandem_kafka.wire.messages import ApiVersionsRequest, ApiVersionsResponse
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.call import Call

_OWN = (0, 4)


@dataclass(slots=True)
class _Offer:
    """The response, whose bytes are cached: it is the same on each connection."""

    keys: tuple[tuple[int, tuple[int, int]], ...]
    throttle_time_ms: int = 0

    def encode(self, *, version: int) -> bytes:
        return _encoded(self.keys, self.throttle_time_ms, version)

    def flexible_version_q(self, version: int) -> bool:
        return bool(ApiVersionsResponse.flexible_version_q(version))


@lru_cache
def _encoded(
    keys: tuple[tuple[int, tuple[int, int]], ...], throttle_time_ms: int, version: int
) -> bytes:
    entries = [_entry(key, *versions) for key, versions in keys]
    response = ApiVersionsResponse(
        error_code=0, api_keys=entries, throttle_time_ms=throttle_time_ms
    )
    return encode_message(response, version)


def _handle(call: Call) -> Any:
    return _Offer(tuple(sorted(call.broker.offered.items())))


def reject_version(call: Call) -> Any:
    """Return the response to an unsupported version of ApiVersions; it is sent as version 0."""
    key, release = ApiVersionsRequest.API_KEY, call.broker.release
    named = release is None or release.names_own_versions
    return ApiVersionsResponse(
        error_code=error_code(errors.UnsupportedVersionError),
        api_keys=[_entry(key, *call.broker.offered[key])] if named else [],
        throttle_time_ms=0,
    )


@lru_cache
def _entry(key: int, low: int, high: int) -> Any:
    return ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)


API = Api(ApiVersionsRequest, _OWN, _handle)
