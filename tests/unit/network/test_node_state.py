"""What is remembered of a broker from one connection to the next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tandem_kafka.network.node_state import PATIENCE_MS, NodeState
from tandem_kafka.network.request import Purpose
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node

LONGEST_MS = 5 * PATIENCE_MS


def state() -> NodeState:
    settings: Any = SimpleNamespace(
        reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000, request_timeout_ms=LONGEST_MS
    )
    return NodeState(Node(1, "10.0.0.1", 9092), settings, Random(1))


def test_each_silence_is_waited_for_twice_as_long_up_to_the_request_timeout() -> None:
    node = state()
    waited = []
    for _ in range(4):
        waited.append(node.patience_ms(Purpose.MAIN))
        node.lost_patience(Purpose.MAIN)
    assert waited == [PATIENCE_MS, 2 * PATIENCE_MS, 4 * PATIENCE_MS, LONGEST_MS]
    assert node.patience_ms(Purpose.GROUP) == PATIENCE_MS, "each purpose has its own"


def test_a_quick_answer_ends_the_patience() -> None:
    node = state()
    node.lost_patience(Purpose.MAIN)
    node.answered(Purpose.MAIN, PATIENCE_MS)
    assert node.patience_ms(Purpose.MAIN) == 2 * PATIENCE_MS, "it was not quick"
    node.answered(Purpose.MAIN, PATIENCE_MS - 1)
    assert node.patience_ms(Purpose.MAIN) == PATIENCE_MS
