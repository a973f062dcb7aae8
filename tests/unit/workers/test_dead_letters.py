"""Dead letters: a record is done only when the broker has acknowledged its letter."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.errors import (
    ArgumentTypeError,
    KafkaError,
    KafkaTimeoutError,
    RecordFailedError,
)
from tandem_kafka.types import TopicPartition
from tandem_kafka.workers import DeadLetters, Retry
from tandem_kafka_testing.simulation import Simulation
from tests.simulation.simulated_workers import simulated_workers

TP = TopicPartition("orders", 0)
RECORD: Any = SimpleNamespace(
    topic="orders", partition=0, offset=7, timestamp=1, key=b"k", value=b"v", headers=[]
)


class Future:
    """What `KafkaProducer.send` of kafka-python returns."""

    def __init__(self, outcome: Exception | None) -> None:
        self.outcome = outcome
        self.timeouts: list[float | None] = []

    def get(self, timeout: float | None = None) -> Any:
        self.timeouts.append(timeout)
        if self.outcome is not None:
            raise self.outcome


class KafkaPythonProducer:
    def __init__(self, outcome: Exception | None = None) -> None:
        self.outcome = outcome
        self.sent: list[Future] = []

    def send(self, topic: str, *, key: Any, value: Any, headers: Any) -> Future:
        assert topic == "dead"
        self.headers = dict(headers)
        if isinstance(value, dict):
            raise TypeError("as kafka-python's own")
        assert key is not None or value is not None, "as kafka-python's own"
        self.sent.append(Future(self.outcome))
        return self.sent[-1]


class ConfluentProducer:
    """Acknowledges at the third `poll()`."""

    def __init__(self, failure: object = None, *, polls: int = 3) -> None:
        self.failure, self.polls = failure, polls
        self.acknowledge: Callable[[Any, Any], None] | None = None

    def produce(self, topic: str, *, on_delivery: Callable[[Any, Any], None], **_: Any) -> None:
        assert topic == "dead"
        self.acknowledge = on_delivery

    def poll(self, _timeout_s: float) -> None:
        self.polls -= 1
        if self.polls == 0 and self.acknowledge is not None:
            self.acknowledge(self.failure, None)


def send(producer: Any, record: Any = RECORD, **options: Any) -> None:
    DeadLetters(producer, "dead", **options)(record, ValueError("why"), 2)


def test_a_record_without_key_and_value_is_sent_by_kafka_pythons_producer() -> None:
    producer = KafkaPythonProducer()
    send(producer, SimpleNamespace(**{**vars(RECORD), "key": None, "value": None}))
    assert len(producer.sent) == 1


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("a\udc80"), b"ValueError: a\\udc80"),
        (ValueError("x" * 1_000_000), b"ValueError: ".ljust(4_000, b"x")),
        (UnprintableError(), b"UnprintableError: (its text raises ValueError)"),
    ],
    ids=["surrogate", "long", "unprintable"],
)
def test_no_exception_keeps_a_record_from_the_dead_letters(error: Exception, reason: bytes) -> None:
    producer = KafkaPythonProducer()
    DeadLetters(producer, "dead")(RECORD, error, 2)
    assert producer.headers["dead-letter-reason"] == reason


def test_a_deserialized_record_without_a_serializer_names_the_cure() -> None:
    record = SimpleNamespace(**{**vars(RECORD), "value": {"a": 1}})
    with pytest.raises(ArgumentTypeError, match=r"orders-0 at offset 7.*pass key_serializer"):
        send(KafkaPythonProducer(), record)
    send(KafkaPythonProducer(), record, value_serializer=lambda data: str(data).encode())


def test_kafka_pythons_acknowledgement_is_awaited() -> None:
    producer = KafkaPythonProducer()
    send(producer, timeout_ms=1_500)
    (future,) = producer.sent
    assert future.timeouts == [1.5]


def test_an_error_of_kafka_pythons_future_is_raised() -> None:
    with pytest.raises(KafkaTimeoutError, match="too late"):
        send(KafkaPythonProducer(KafkaTimeoutError("too late")))


def test_confluents_acknowledgement_is_awaited() -> None:
    producer = ConfluentProducer()
    send(producer)
    assert producer.polls == 0


def test_an_error_of_confluents_delivery_is_raised() -> None:
    with pytest.raises(KafkaError, match="could not send a dead letter to 'dead': no leader"):
        send(ConfluentProducer("no leader"))


def test_confluents_producer_that_acknowledges_nothing() -> None:
    with pytest.raises(KafkaTimeoutError, match="within timeout_ms=1"):
        send(ConfluentProducer(polls=-1), timeout_ms=1)


@pytest.mark.parametrize(
    "producer",
    [KafkaPythonProducer(KafkaTimeoutError("too late")), ConfluentProducer("no leader")],
    ids=["kafka-python", "confluent"],
)
def test_a_record_without_its_letter_is_not_done(producer: Any) -> None:
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders")
        simulation.cluster.produce(TP, b"bad")

        def handle(_: Any) -> None:
            raise ValueError("why")

        workers = simulated_workers(
            simulation,
            simulation.consumer(
                "orders",
                group_id="billing",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            ),
            handle,
            retry=Retry(1),
            exhausted=DeadLetters(producer, "dead"),
        )
        with pytest.raises(RecordFailedError):
            workers.run(until=lambda: workers.done > 0)
        assert simulation.cluster.committed("billing", TP) == 0
