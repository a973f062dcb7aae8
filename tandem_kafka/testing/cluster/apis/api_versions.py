"""ApiVersions: which requests in which versions are understood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tandem_kafka.testing.cluster.apis.api import Api
from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.wire.messages import ApiVersionsRequest, ApiVersionsResponse

__all__ = ["api_with"]

_OWN = (0, 4)


def api_with(others: Iterable[Api]) -> Api:
    """Return the API that tells of itself and all others."""
    entry = ApiVersionsResponse.ApiVersion
    offered = {api.request.API_KEY: api.versions for api in others}
    offered[ApiVersionsRequest.API_KEY] = _OWN

    def handle(call: Call) -> Any:
        keys = [
            entry(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(offered.items())
            if key not in call.cluster.disabled
        ]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    return Api(ApiVersionsRequest, _OWN, handle)
