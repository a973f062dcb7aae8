"""Read, process, write: members join and leave while transactions are open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import options_of
from tests.integration.groups.transactional_loop import PRODUCERS, TransactionalLoop
from tests.integration.polling import Consume, poll_until
from tests.waiting import wait_until

pytestmark = pytest.mark.full("takes long on a real broker")

PARTITIONS = 4
EACH = 25

Start = Callable[..., TransactionalLoop]


@pytest.fixture(params=PRODUCERS)
def client(request: pytest.FixtureRequest) -> str:
    """The client of the producer."""
    return str(request.param)


@pytest.fixture(params=["eager", "cooperative", "consumer"])
def start(
    kafka: RealKafka, topic: str, consume: Consume, client: str, request: pytest.FixtureRequest
) -> Iterator[Start]:
    """Starts programs that copy from one topic to another."""
    topics = (
        kafka.admin.create_topic(f"input-{topic}", PARTITIONS),
        kafka.admin.create_topic(f"output-{topic}", 2),
    )
    running: list[TransactionalLoop] = []

    def made(*, aborts: bool = False) -> TransactionalLoop:
        options = {"group_id": topic, "isolation_level": "read_committed", "max_poll_records": 7}
        consumer = consume(**options, **options_of(str(request.param)))
        writes = PRODUCERS[client](kafka.bootstrap(), f"copies-{topic}-{len(running)}")
        running.append(TransactionalLoop(consumer, writes, topics, aborts=aborts))
        return running[-1]

    yield made
    for loop in running:
        loop.stop()


class Input:
    """The records of the input topic.

    Attributes:
        values: Their values, in no order.
    """

    def __init__(self, kafka: RealKafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self.values: list[bytes] = []

    def grow(self) -> None:
        """Add records to each partition."""
        for partition in range(PARTITIONS):
            values = [b"%d" % (len(self.values) + number) for number in range(EACH)]
            self._kafka.admin.produce(
                self._topic, [Record(value, partition=partition) for value in values]
            )
            self.values += values


def test_each_record_is_in_the_output_once(
    kafka: RealKafka, topic: str, consume: Consume, start: Start
) -> None:
    """Each transaction ends in a listener; one member aborts its own, and leaves."""
    given, finished = Input(kafka, f"input-{topic}"), 0
    first = start()
    for aborts in (False, True):
        wait_for_shares(first)
        given.grow()
        wait_for_records(first, len(given.values) - finished)
        open_before, ended_before = first.written, len(first.ended)
        second = start(aborts=aborts)
        wait_for_shares(first, second)
        assert first.ended[ended_before:] == [open_before]
        given.grow()
        wait_for_records(second, PARTITIONS * EACH // 2)
        wait_for_records(first, len(given.values) - finished - second.total)
        second.stop()
        assert second.ended == [PARTITIONS * EACH // 2]
        finished += 0 if aborts else second.total
    wait_for_records(first, len(given.values) - finished)
    first.stop()
    reader = consume(isolation_level="read_committed")
    reader.assign([TopicPartition(f"output-{topic}", number) for number in (0, 1)])
    records = poll_until(reader, lambda: at_end(reader))
    assert Counter(record.value for record in records) == Counter(given.values)


def wait_for_shares(*loops: TransactionalLoop) -> None:
    """Wait until each loop has the same number of partitions."""
    share = PARTITIONS // len(loops)
    wait_until(lambda: all(len(loop.owned) == share or loop.error for loop in loops))


def wait_for_records(loop: TransactionalLoop, count: int) -> None:
    """Wait until the transactions of a loop have this number of records."""
    wait_until(lambda: loop.total >= count or loop.error)
    assert loop.total == count, loop.error


def at_end(reader: KafkaConsumer) -> bool:
    """Tell whether a consumer is at the end of its partitions."""
    ends = reader.end_offsets(reader.assignment())
    return all(reader.position(tp) == end for tp, end in ends.items())
