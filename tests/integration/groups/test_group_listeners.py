"""Listeners that raise, and leaving a group in every way there is."""

from __future__ import annotations

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import ConsumerClosedError, RebalanceCallbackError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import PROTOCOLS, Member, options_of, owned, rebalance_calls
from tests.integration.polling import Consume, Listener, poll_until
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.both_clusters,
    pytest.mark.parametrize("protocol", PROTOCOLS),
    pytest.mark.partitions(2),
]


class Raising(Listener):
    """Raises in one of its methods until `method` is reset."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method: str | None = method

    def _note(self, what: str, partitions: set[TopicPartition]) -> None:
        super()._note(what, partitions)
        if what == self.method:
            raise ValueError("on purpose")


def _poll_until_raised(consumer: KafkaConsumer) -> BaseException:
    with pytest.raises(RebalanceCallbackError, match="User rebalance callback") as raised:
        poll_until(consumer, lambda: False)
    assert isinstance(raised.value.__cause__, ValueError)
    return raised.value


@pytest.mark.behaviour(77, 78)
def test_a_failed_assigned_callback_is_called_again_with_the_same_partitions(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=n) for n in (0, 1)])
    listener = Raising("assigned")
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))
    consumer.subscribe([topic], listener=listener)
    _poll_until_raised(consumer)
    _poll_until_raised(consumer)
    listener.method = None
    assert len(poll_until(consumer, lambda: _done(consumer))) == 2
    both = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    times = [partitions for what, partitions in rebalance_calls(listener) if what == "assigned"]
    assert len(times) >= 2
    assert all(partitions == both for partitions in times)


def _done(consumer: KafkaConsumer) -> bool:
    return (
        bool(consumer.assignment())
        and sum(consumer.position(tp) for tp in consumer.assignment()) == 2
    )


@pytest.mark.behaviour(76)
def test_a_failed_revoked_callback_keeps_the_partitions_and_is_called_again(
    topic: str, consume: Consume, protocol: str
) -> None:
    listener = Raising("revoked")
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))
    consumer.subscribe([topic], listener=listener)
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    other = Member(consume(group_id=f"group-{topic}", **options_of(protocol)), [topic])
    _poll_until_raised(consumer)
    assert len(consumer.assignment()) == 2
    _poll_until_raised(consumer)
    listener.method = None
    poll_until(consumer, lambda: len(consumer.assignment()) == 1 and len(owned(other)) == 1)
    times = [partitions for what, partitions in listener.calls if what == "revoked"]
    assert times[0] == times[1] == times[2]
    other.stop()


@pytest.mark.behaviour(99, 100, 101)
@pytest.mark.design("003", "Unsubscribe")
def test_unsubscribe_runs_the_listener_once_and_close_not_again(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    listener = Listener()
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))
    consumer.subscribe([topic], listener=listener)
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    joined = consumer.group_metadata()
    assert joined.generation_id > 0
    assert joined.member_id
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    assert consumer.subscription() is None
    assert consumer.group_metadata().generation_id == -1
    assert kafka.admin.members(f"group-{topic}") == 0
    consumer.close()
    assert [what for what, _ in rebalance_calls(listener)] == ["assigned", "revoked"]


@pytest.mark.behaviour(103, 111, 112)
def test_close_commits_then_revokes_then_leaves(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=n) for n in (0, 1)])
    seen: list[tuple[list[int | None], int]] = []
    consumer = consume(group_id=f"group-{topic}", enable_auto_commit=True, **options_of(protocol))

    class Look:
        def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
            pass

        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            consumer.commit_sync()
            committed = [consumer.committed(tp, timeout_ms=5_000) for tp in partitions]
            seen.append((committed, kafka.admin.members(f"group-{topic}")))

    consumer.subscribe([topic], listener=Look())
    poll_until(consumer, lambda: _done(consumer))
    consumer.close()
    assert seen == [([1, 1], 1)]
    assert kafka.admin.members(f"group-{topic}") == 0


@pytest.mark.behaviour(105)
def test_a_listener_that_raises_does_not_stop_close(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))
    consumer.subscribe([topic], listener=Raising("revoked"))
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    with pytest.raises(RebalanceCallbackError):
        consumer.close()
    assert kafka.admin.members(f"group-{topic}") == 0
    with pytest.raises(ConsumerClosedError):
        consumer.poll()


@pytest.mark.behaviour(107)
def test_close_with_a_timeout_of_0_still_leaves(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    consumer = consume(topic, group_id=f"group-{topic}", **options_of(protocol))
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    consumer.close(timeout_ms=0)
    wait_until(lambda: kafka.admin.members(f"group-{topic}") == 0)


@pytest.mark.full("takes long on a real broker")
@pytest.mark.real_cluster("tests/simulation has no need to wait")
@pytest.mark.behaviour(109)
def test_remain_keeps_a_dynamic_member_until_its_session_ends(
    kafka: RealKafka, topic: str, consume: Consume, protocol: str
) -> None:
    consumer = consume(topic, group_id=f"group-{topic}", **options_of(protocol))
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    consumer.close(leave_group="remain")
    assert kafka.admin.members(f"group-{topic}") == 1
    wait_until(lambda: kafka.admin.members(f"group-{topic}") == 0)


@pytest.mark.behaviour(115)
def test_close_inside_a_callback(topic: str, consume: Consume, protocol: str) -> None:
    consumer = consume(group_id=f"group-{topic}", **options_of(protocol))

    class Closes:
        def on_partitions_assigned(self, _partitions: set[TopicPartition]) -> None:
            consumer.close()

        def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
            pass

    consumer.subscribe([topic], listener=Closes())
    with pytest.raises(ConsumerClosedError):
        poll_until(consumer, lambda: False)
