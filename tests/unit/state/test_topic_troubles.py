"""Which troubles of topics count."""

from __future__ import annotations

from tandem_kafka import TopicPartition
from tandem_kafka.state.topic_troubles import TopicTroubles

TOPICS = frozenset({"orders", "users"})


def test_a_denied_topic_counts_while_it_is_fetched() -> None:
    """Only a fetch ends the trouble, and after a rebalance another member may fetch the topic."""
    troubles = TopicTroubles()
    troubles.note_fetch(TopicPartition("orders", 0), 0, denied=True)
    assert set(troubles.of(TOPICS, {"orders"})) == {"orders"}
    assert troubles.of(TOPICS, {"users"}) == {}


def test_a_denied_topic_is_readable_after_a_fetch() -> None:
    troubles = TopicTroubles()
    troubles.note_fetch(TopicPartition("orders", 0), 0, denied=True)
    troubles.note_fetch(TopicPartition("users", 0), 0, denied=False)
    assert set(troubles.of(TOPICS, TOPICS)) == {"orders"}
    troubles.note_fetch(TopicPartition("orders", 0), 0, denied=False)
    assert troubles.of(TOPICS, TOPICS) == {}
