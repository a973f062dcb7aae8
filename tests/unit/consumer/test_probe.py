"""The probe says by HTTP what `health()` says."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.probe import Probe
from tandem_kafka.testing import simulated_consumer


def get(probe: Probe, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{probe.port}{path}", timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_status_follows_the_health() -> None:
    consumer = simulated_consumer(client_id="one")
    other = simulated_consumer(client_id="two")
    with Probe(consumer, other, port=0, host="127.0.0.1") as probe:
        assert get(probe, "/live") == (200, {"ok": True, "reasons": {"one": [], "two": []}})
        missing = ["there is no subscription: call subscribe() or assign()"]
        assert get(probe, "/ready?full") == (
            503,
            {"ok": False, "reasons": {"one": missing, "two": missing}},
        )
        consumer.close()
        closed = ["the consumer has been closed"]
        status, body = get(probe, "/live")
        assert (status, body["reasons"]) == (503, {"one": closed, "two": []})
        assert get(probe, "/")[0] == 404
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{probe.port}/live", timeout=5)
    other.close()


def test_a_probe_needs_a_consumer() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one consumer"):
        Probe()
