"""A mistyped topic is named in the log, once, after a second."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic

LOGGER = "tandem_kafka.state.topic_troubles"


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == LOGGER]


@pytest.mark.parametrize(
    "options",
    [
        {"group_id": "readers"},
        {"group_id": "readers", "group_protocol": "consumer"},
        {},
    ],
    ids=["classic", "consumer", "no group"],
)
def test_a_missing_topic_is_named_once(
    caplog: pytest.LogCaptureFixture, options: dict[str, str]
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with Simulation("missing") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(
            "orders", "ordres", allow_auto_create_topics=False, **options
        )
        consumer.poll(900)
        assert messages(caplog) == []
        consumer.poll(60_000)
        [(level, message)] = messages(caplog)
        assert level == "WARNING"
        assert message.startswith("[simulated-1] the topic 'ordres' does not exist, or this ")
        create_topic(simulation, "ordres", 1)
        consumer.poll(60_000)
        assert messages(caplog)[1:] == [
            ("INFO", "[simulated-1] the topic 'ordres' is available now, or is no longer wanted")
        ]


def test_a_topic_that_is_created_in_time_is_not_missed(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation("created") as simulation:
        consumer = simulation.consumer(allow_auto_create_topics=False)
        consumer.assign([TopicPartition("orders", 0)])
        consumer.poll(500)
        create_topic(simulation, "orders", 1)
        consumer.poll(10_000)
        assert messages(caplog) == []


def test_a_request_that_creates_a_topic_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    """A mistyped name becomes a topic, and a deleted topic comes back."""
    with Simulation("creation") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", "ordres")
        consumer.poll(60_000)
        texts = [text for level, text in messages(caplog) if level == "WARNING"]
        created, missing = texts
        assert "the topic 'ordres' does not exist, and the metadata request of this" in created
        assert "set allow_auto_create_topics=False" in created
        assert "there are no records until it appears" in missing


LOOKUPS: dict[str, Callable[[KafkaConsumer, TopicPartition], object]] = {
    "end_offsets": lambda consumer, tp: consumer.end_offsets([tp]),
    "beginning_offsets": lambda consumer, tp: consumer.beginning_offsets([tp]),
    "offsets_for_times": lambda consumer, tp: consumer.offsets_for_times({tp: 0}),
    "commit": lambda consumer, tp: consumer.commit({tp: OffsetAndMetadata(0, "", -1)}),
}


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("creating", [True, False])
def test_a_lookup_that_creates_a_topic_is_announced(
    caplog: pytest.LogCaptureFixture, name: str, creating: bool
) -> None:
    with Simulation("lookup") as simulation:
        simulation.cluster.auto_create = True
        consumer = simulation.consumer(group_id="readers", allow_auto_create_topics=creating)
        with contextlib.nullcontext() if creating else pytest.raises(KafkaTimeoutError):
            LOOKUPS[name](consumer, TopicPartition("ordres", 0))
        assert ("ordres" in simulation.cluster.topics) is creating
        texts = [text.partition(", and the metadata request")[0] for _, text in messages(caplog)]
        assert texts == ["[simulated-1] the topic 'ordres' does not exist"] * creating


def test_a_lookup_of_a_missing_topic_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    """Where brokers do not create topics, the lookup asks again until it times out."""
    with Simulation("lookup") as simulation:
        consumer = simulation.consumer()
        for _ in range(10):
            with pytest.raises(KafkaTimeoutError):
                consumer.end_offsets([TopicPartition("ordres", 0)], timeout_ms=20_000)
        assert len(messages(caplog)) == 1


@pytest.mark.parametrize("options", [{}, {"group_id": "readers"}], ids=["no group", "group"])
def test_health_names_missing_topics(options: dict[str, str]) -> None:
    with Simulation("health") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", "ordres", **options)
        consumer.poll(10_000)
        [trouble] = consumer.health().troubles
        assert trouble == (
            "the topic 'ordres' does not exist, or this client may not see it; check the name"
        )
        assert consumer.health().ready  # it reads the other one
        assert "subscription: orders, ordres" in consumer.diagnose()
        consumer.subscribe(["ordres"])
        consumer.poll(10_000)
        assert consumer.health().not_ready == (trouble,)
        create_topic(simulation, "ordres", 1)
        consumer.poll(10_000)
        assert consumer.health().ready
        assert consumer.health().troubles == ()
