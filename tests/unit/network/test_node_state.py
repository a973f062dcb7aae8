"""The state of a broker across connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tandem_kafka.network.node_state import SILENCE_LIMIT_MS, NodeState
from tandem_kafka.network.outages import Outages
from tandem_kafka.network.request import Purpose
from tandem_kafka.network.transport import ServerAddress
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node

LONGEST_MS = 5 * SILENCE_LIMIT_MS


def state() -> NodeState:
    settings: Any = SimpleNamespace(
        reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000, request_timeout_ms=LONGEST_MS
    )
    return NodeState(Node(1, "10.0.0.1", 9092), settings, Random(1), Outages())


def test_the_silence_limit_doubles_up_to_the_request_timeout() -> None:
    node = state()
    waited = []
    for _ in range(4):
        waited.append(node.silence_limit_ms(Purpose.MAIN))
        node.extend_silence_limit(Purpose.MAIN)
    assert waited == [SILENCE_LIMIT_MS, 2 * SILENCE_LIMIT_MS, 4 * SILENCE_LIMIT_MS, LONGEST_MS]
    assert node.silence_limit_ms(Purpose.GROUP) == SILENCE_LIMIT_MS, (
        "each purpose has its own limit"
    )


def test_the_addresses_of_a_former_host_are_not_tried_for_another() -> None:
    node = state()
    node.untried(Purpose.MAIN).append(ServerAddress("broker-1", "10.0.0.1", 9092))
    node.move(Node(1, "10.0.0.2", 9092))
    assert not node.untried(Purpose.MAIN)


def test_a_quick_response_resets_the_silence_limit() -> None:
    node = state()
    node.extend_silence_limit(Purpose.MAIN)
    node.responded(Purpose.MAIN, SILENCE_LIMIT_MS, 0, 0)
    assert node.silence_limit_ms(Purpose.MAIN) == 2 * SILENCE_LIMIT_MS, (
        "a slow response does not reset the limit"
    )
    node.responded(Purpose.MAIN, SILENCE_LIMIT_MS - 1, 0, 0)
    assert node.silence_limit_ms(Purpose.MAIN) == SILENCE_LIMIT_MS
