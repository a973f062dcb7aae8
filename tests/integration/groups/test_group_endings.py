"""State that a member keeps and loses, and how it leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.consumer import closing
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import PROTOCOLS, Member, options_of, owned, rebalance_calls
from tests.integration.polling import (
    ENDLESS_MS,
    ENDLESS_REQUESTS,
    Consume,
    Listener,
    partitions_of,
    poll_until,
)
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.parametrize("protocol", PROTOCOLS),
    pytest.mark.partitions(4),
]


@pytest.mark.behaviour(75)
def test_retained_partitions_keep_their_state_and_reassigned_ones_do_not(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    """The eager protocol revokes everything, so nothing is retained."""
    kafka.admin.produce(topic, [Record(b"x", partition=n % 4) for n in range(40)])
    consumer = consume(topic, group_id=f"group-{topic}", **options_of(protocol))
    partitions = partitions_of(topic, 4)
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)
    consumer.pause(*partitions)
    for tp in partitions:
        consumer.seek(tp, 7)
    other = Member(consume(group_id=f"group-{topic}", **options_of(protocol)), [topic])
    poll_until(consumer, lambda: len(consumer.assignment()) == len(owned(other)) == 2)
    stayed = set() if protocol == "eager" else consumer.assignment()
    assert consumer.paused() == stayed
    assert {consumer.position(tp) for tp in stayed} <= {7}
    wait_until(lambda: len(other.records) == 20)
    other.stop()
    consumer.pause(*consumer.assignment())
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)
    back = set(partitions) - stayed
    assert not consumer.paused() & back
    # The commit of the other member, or the beginning; not our former position.
    assert {consumer.position(tp) for tp in back} <= {0, 10}
    assert {consumer.position(tp) for tp in stayed} <= {7}


@pytest.mark.behaviour(87)
def test_one_long_poll_keeps_the_membership(topic: str, consume: Consume, protocol: str) -> None:
    # Long enough for a machine that stands still now and then.
    options = {**options_of(protocol), "max_poll_interval_ms": 4_000}
    consumer = consume(group_id=f"group-{topic}", **options)
    listener = Listener()
    consumer.subscribe([topic], listener=listener)
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)
    before = consumer.group_metadata()
    assert not consumer.poll(timeout_ms=6_000)
    assert consumer.group_metadata() == before
    assert [what for what, _ in rebalance_calls(listener)] == ["assigned"]


@pytest.mark.behaviour(105)
def test_an_interrupt_does_not_stop_close(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    class Interrupted(Listener):
        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            raise KeyboardInterrupt

    consumer, listener = consume(group_id=f"group-{topic}", **options_of(protocol)), Interrupted()
    consumer.subscribe([topic], listener=listener)
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    assert kafka.admin.members(f"group-{topic}") == 0
    assert [what for what, _ in rebalance_calls(listener)] == ["assigned", "revoked"]


@pytest.mark.behaviour(108)
def test_a_static_member_leaves_on_request_only(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    def static() -> KafkaConsumer:
        options = {**options_of(protocol), "group_instance_id": "one"}
        consumer = consume(topic, group_id=f"group-{topic}", **options)
        poll_until(consumer, lambda: len(consumer.assignment()) == 4)
        return consumer

    for how, left in (("default", 1), ("remain", 1), ("leave", 0)):
        static().close(leave_group=how)  # type: ignore[arg-type]
        assert kafka.admin.members(f"group-{topic}") == left


@pytest.mark.behaviour(110, 114)
def test_close_completes_commits_and_does_not_wait_for_a_fetch(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    options = {**options_of(protocol), "fetch_max_wait_ms": ENDLESS_MS // 2, **ENDLESS_REQUESTS}
    consumer = consume(topic, group_id=f"group-{topic}", **options)
    poll_until(consumer, lambda: len(consumer.assignment()) == 4)
    consumer.poll(timeout_ms=500)  # the fetch is parked at the broker by now
    seen: list[object] = []
    consumer.commit_async(
        {TopicPartition(topic, 0): OffsetAndMetadata(3)}, lambda _, error: seen.append(error)
    )
    consumer.close(timeout_ms=ENDLESS_MS)
    assert seen == [None]
    assert kafka.admin.committed(f"group-{topic}", topic) == 3


@pytest.fixture(scope="module")
def silent() -> Iterator[RealKafka]:
    with RealKafka() as cluster:
        yield cluster


@pytest.mark.full("takes long on a real broker")
@pytest.mark.behaviour(106)
@pytest.mark.parametrize("limit", ["timeout_ms", "request_timeout_ms"])
def test_close_keeps_to_its_timeout_when_no_broker_answers(
    silent: RealKafka,
    consume: Consume,
    protocol: str,
    limit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without one of its own it takes no longer than a request may, though 30 s are its default."""
    for default in ("DEFAULT_TIMEOUT_MS", "UNREACHABLE_TIMEOUT_MS"):
        monkeypatch.setattr(closing, default, ENDLESS_MS)
    topic = silent.admin.create_topic(f"silent-{protocol}-{limit}".replace("_", "-"), 2)
    consumer = consume(
        topic,
        bootstrap_servers=silent.bootstrap(),
        group_id=topic,
        enable_auto_commit=True,
        **(
            {"request_timeout_ms": 1_500, "fetch_max_wait_ms": 200}
            if limit == "request_timeout_ms"
            else ENDLESS_REQUESTS
        ),
        **options_of(protocol),
    )
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    silent.pause()
    try:
        consumer.close(**({"timeout_ms": 1_500} if limit == "timeout_ms" else {}))
    finally:
        silent.resume()
