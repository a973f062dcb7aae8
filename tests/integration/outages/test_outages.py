"""Brokers that do not respond or are down: calls end in time, use no CPU, and recover."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError, RetriableCommitFailedError, WakeupError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.ports import free_ports
from tests.integration.polling import (
    Clock,
    Consume,
    assigned,
    cpu_share,
    interrupted_when_blocked,
    partitions_of,
    poll_until,
    read_all,
    when_blocked,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.full("starts brokers of its own")

#: Tries again soon, so that tests are quick.
QUICK = {"reconnect_backoff_max_ms": 200, "retry_backoff_max_ms": 200}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealKafka]:
    with RealKafka() as cluster:
        yield cluster


@pytest.fixture
def paused(cluster: RealKafka) -> Iterator[Callable[[], None]]:
    """Pauses the broker until the test ends."""
    yield cluster.pause
    cluster.resume()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return "".join(char if char.isalnum() else "-" for char in request.node.name)


@pytest.fixture
def tp(cluster: RealKafka, name: str) -> TopicPartition:
    return TopicPartition(cluster.admin.create_topic(name), 0)


@pytest.fixture
def consumer(cluster: RealKafka, consume: Consume, tp: TopicPartition) -> KafkaConsumer:
    """A consumer with a partition and a known coordinator."""
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap(), **QUICK}
    consumer = consume(group_id=f"group-of-{tp.topic}", **options)
    consumer.assign([tp])
    assert consumer.position(tp) == 0
    consumer.commit({tp: offset(1)})
    return consumer


def offset(number: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(number, "", -1)


def coordinator_known(consumer: KafkaConsumer) -> bool:
    known: bool = consumer._core.engine.loop._managers.group.coordinator.known
    return known


BLOCKING: dict[str, Callable[[KafkaConsumer, TopicPartition, float], object]] = {
    "commit": lambda c, tp, t: c.commit({tp: offset(5)}, t),
    "committed": lambda c, tp, t: c.committed(tp, timeout_ms=t),
    "position": lambda c, tp, t: (c.seek_to_end(tp), c.position(tp, t)),
    "topics": lambda c, _, t: c.topics(t),
    "partitions_for_topic": lambda c, _, t: c.partitions_for_topic("another", t),
}
NOT_INTERRUPTIBLE: dict[str, Callable[[KafkaConsumer, TopicPartition, float], object]] = {
    "end_offsets": lambda c, tp, t: c.end_offsets([tp], t),
    "beginning_offsets": lambda c, tp, t: c.beginning_offsets([tp], t),
    "offsets_for_times": lambda c, tp, t: c.offsets_for_times({tp: 1}, t),
}


@pytest.mark.behaviour(37)
@pytest.mark.parametrize("call", [*BLOCKING, *NOT_INTERRUPTIBLE])
def test_a_call_without_a_response_ends_at_its_timeout(
    consumer: KafkaConsumer, tp: TopicPartition, paused: Callable[[], None], call: str
) -> None:
    paused()
    clock = Clock()
    words = "offsets by times" if call in NOT_INTERRUPTIBLE else call
    if call == "position":
        assert BLOCKING[call](consumer, tp, 300) == (None, None)
    else:
        with pytest.raises(KafkaTimeoutError, match=words):
            (BLOCKING | NOT_INTERRUPTIBLE)[call](consumer, tp, 300)
    assert clock.seconds > 0.28
    assert clock.within(15)
    assert consumer._core.engine.loop._reaper.watched() == ()


@pytest.mark.behaviour(32)
@pytest.mark.parametrize("call", BLOCKING)
def test_wakeup_ends_a_call_that_blocks(
    cluster: RealKafka,
    consumer: KafkaConsumer,
    tp: TopicPartition,
    paused: Callable[[], None],
    call: str,
) -> None:
    paused()
    with when_blocked(consumer, consumer.wakeup) as clock:
        with pytest.raises(WakeupError):
            BLOCKING[call](consumer, tp, 30_000)
        assert clock.within(15)
    cluster.resume()
    BLOCKING[call](consumer, tp, 30_000)


@pytest.mark.behaviour(33)
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("call", ["commit", "position", "end_offsets"])
def test_ctrl_c_ends_a_call_that_blocks(
    cluster: RealKafka,
    consumer: KafkaConsumer,
    tp: TopicPartition,
    paused: Callable[[], None],
    call: str,
) -> None:
    if call == "position":
        consumer.seek_to_end(tp)
    paused()
    with interrupted_when_blocked(consumer) as clock:
        with pytest.raises(KeyboardInterrupt):
            {
                "commit": lambda: consumer.commit({tp: offset(5)}),
                "position": lambda: consumer.position(tp),
                "end_offsets": lambda: consumer.end_offsets([tp]),
            }[call]()
        assert clock.within(15)
    cluster.resume()
    consumer.commit({tp: offset(6)})
    assert consumer.committed(tp) == 6
    cluster.admin.produce(tp.topic, [b"later"])
    consumer.seek_to_beginning()
    assert len(read_all(consumer, 1)) == 1
    consumer.close()


@pytest.mark.behaviour(32)
def test_wakeup_does_not_end_calls_that_it_must_not_interrupt(
    cluster: RealKafka, consumer: KafkaConsumer, tp: TopicPartition, paused: Callable[[], None]
) -> None:
    paused()

    def wake_and_resume() -> None:
        consumer.wakeup()
        cluster.resume()

    with when_blocked(consumer, wake_and_resume):
        assert consumer.end_offsets([tp]) == {tp: 0}
    with pytest.raises(WakeupError):
        consumer.poll(0)


@pytest.mark.behaviour(38)
def test_a_call_with_a_timeout_of_0_is_still_sent(
    cluster: RealKafka, consumer: KafkaConsumer, tp: TopicPartition, paused: Callable[[], None]
) -> None:
    paused()
    with pytest.raises(KafkaTimeoutError, match="commit"):
        consumer.commit({tp: offset(7)}, timeout_ms=0)
    cluster.resume()
    wait_until(lambda: consumer.committed(tp) == 7, "the commit")


@pytest.mark.behaviour(123)
def test_commit_async_is_not_retried(
    cluster: RealKafka, consume: Consume, tp: TopicPartition, paused: Callable[[], None]
) -> None:
    options = {"request_timeout_ms": 600, "bootstrap_servers": cluster.bootstrap(), **QUICK}
    consumer = consume(group_id=f"group-of-{tp.topic}", **options)
    consumer.assign([tp])
    consumer.commit({tp: offset(1)})
    paused()
    seen: list[Exception | None] = []
    consumer.commit_async({tp: offset(2)}, lambda _, error: seen.append(error))
    poll_until(consumer, lambda: seen)
    assert isinstance(seen[0], RetriableCommitFailedError)
    assert seen[0].retriable
    assert seen[0].__cause__ is not None
    cluster.resume()
    consumer.commit({tp: offset(3)})
    assert len(seen) == 1


@pytest.mark.behaviour(124)
def test_commit_is_retried_until_it_works(
    cluster: RealKafka, consume: Consume, tp: TopicPartition, paused: Callable[[], None]
) -> None:
    options = {"request_timeout_ms": 600, "bootstrap_servers": cluster.bootstrap(), **QUICK}
    consumer = consume(group_id=f"group-of-{tp.topic}", **options)
    consumer.commit({tp: offset(1)})
    paused()

    def resume_after_a_failure() -> None:
        wait_until(lambda: not coordinator_known(consumer), "a failed attempt")
        cluster.resume()

    with when_blocked(consumer, resume_after_a_failure):
        consumer.commit({tp: offset(9)}, timeout_ms=40_000)
    assert consumer.committed(tp) == 9


@pytest.mark.behaviour(23)
def test_an_unreachable_cluster_uses_no_cpu_and_is_found_again(
    cluster: RealKafka, consume: Consume, tp: TopicPartition, paused: Callable[[], None]
) -> None:
    """First it does not respond, then it is down, then it is back."""
    later = f"later-{tp.topic}"
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap(),
        "session_timeout_ms": 1_500,
        "heartbeat_interval_ms": 200,
        "request_timeout_ms": 800,
        **QUICK,
    }
    member = consume(tp.topic, later, group_id=f"group-of-{tp.topic}", **options)
    poll_until(member, lambda: member.assignment() == {tp})
    paused()
    assert cpu_share(lambda: member.poll(2_500)) < 0.05
    cluster.kill()
    assert cpu_share(lambda: member.poll(2_500)) < 0.05
    cluster.start_again()
    cluster.admin.create_topic(later)
    cluster.admin.produce(later, [b"later"])
    cluster.admin.produce(tp.topic, [b"now"])
    values: set[bytes] = set()  # the rebalance for the later topic may bring the first one twice

    def read() -> bool:
        values.update(record.value for some in member.poll(100).values() for record in some)
        return values == {b"later", b"now"}

    wait_until(read)


@pytest.mark.behaviour(23)
def test_a_cluster_that_never_existed_uses_no_cpu(
    consume: Consume,
) -> None:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    consumer = consume("topic", group_id="g", bootstrap_servers=nowhere, bootstrap_timeout_ms=0)
    assert cpu_share(lambda: consumer.poll(2_000)) < 0.05
    with when_blocked(consumer, consumer.wakeup), pytest.raises(WakeupError):
        consumer.poll(30_000)


def test_the_constructor_names_the_servers_that_do_not_respond(cluster: RealKafka) -> None:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    clock = Clock()
    with pytest.raises(KafkaTimeoutError, match=f"300 ms.*{nowhere}"):
        KafkaConsumer(bootstrap_servers=nowhere, bootstrap_timeout_ms=300)
    assert clock.seconds > 0.28
    assert clock.within(15)
    with KafkaConsumer(bootstrap_servers=[nowhere, cluster.bootstrap()]) as consumer:
        assert consumer.bootstrap_connected()


def test_an_idle_member_continues_after_a_restart(
    cluster: RealKafka, consume: Consume, tp: TopicPartition
) -> None:
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap(), **QUICK}
    member = consume(tp.topic, group_id=f"group-of-{tp.topic}", **options)
    assigned(member, partitions_of(tp.topic, 1))
    cluster.restart()
    cluster.admin.produce(tp.topic, [b"after"])
    assert [record.value for record in read_all(member, 1)] == [b"after"]
    member.commit()
    assert member.committed(tp) == 1


def test_health_and_log_tell_the_truth(
    cluster: RealKafka,
    consumer: KafkaConsumer,
    tp: TopicPartition,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def until(ready: bool) -> None:
        clock = Clock()
        while consumer.health().ready is not ready:
            consumer.poll(100)
            assert clock.within(30), consumer.diagnose()

    until(ready=True)
    cluster.pause()
    try:
        until(ready=False)
        # On a busy machine, it may have been paused while a connection was made.
        line = r"broker 1 .* has not responded for|cannot use broker 1"
        wait_until(lambda: re.search(line, caplog.text), "the line")
        assert any(each.startswith("broker 1 ") for each in consumer.health().troubles)
        assert f"{tp.topic}-0" in consumer.diagnose()
        assert consumer.health().alive
    finally:
        cluster.resume()
    until(ready=True)
    poll_until(consumer, lambda: "is back after" in caplog.text)
