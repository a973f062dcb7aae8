"""Responses with damaged bytes cause errors in time; the consumer then continues."""

from __future__ import annotations

import contextlib

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka_testing import Simulation
from tests.histories.ledger import LATE_MS
from tests.scenarios.numbered_records import create_topic, produce, value_of
from tests.simulation.garbling import garble_responses
from tests.tier import seeds

WAYS = ("assigned", "classic", "consumer")
SEEDS = seeds(8, 100)
RECORDS = 20
_LIMIT_MS = 2_000


def do_something(simulation: Simulation, consumer: KafkaConsumer, tp: TopicPartition) -> None:
    """Make a random call with a timeout, often poll()."""
    match simulation.random.randrange(9):
        case 0:
            consumer.commit(timeout_ms=_LIMIT_MS)
        case 1:
            consumer.committed(tp, timeout_ms=_LIMIT_MS)
        case 2:
            consumer.end_offsets([tp], _LIMIT_MS)
        case 3:
            consumer.offsets_for_times({tp: 1}, _LIMIT_MS)
        case 4:
            consumer.topics(timeout_ms=_LIMIT_MS)
        case 5:
            consumer.commit_async()
        case _:
            consumer.poll(_LIMIT_MS)


def join(consumer: KafkaConsumer, way: str, tps: list[TopicPartition]) -> None:
    """Assign or subscribe again."""
    consumer.unsubscribe()
    if way == "assigned":
        consumer.assign(tps)
    else:
        consumer.subscribe(["orders"])


def use(simulation: Simulation, consumer: KafkaConsumer, tps: list[TopicPartition]) -> None:
    """Make calls; each ends in time, with a result or a Kafka error."""
    for _ in range(30):
        began_ms = simulation.clock.now_ms()
        with contextlib.suppress(KafkaError):
            do_something(simulation, consumer, simulation.random.choice(tps))
        assert simulation.clock.now_ms() - began_ms <= _LIMIT_MS + LATE_MS
        held = consumer._core.engine.buffer.held_bytes
        assert held <= consumer._core.config.fetch_buffer_max_bytes


def read_all(simulation: Simulation, consumer: KafkaConsumer, tps: list[TopicPartition]) -> None:
    """Read every record, with its original value."""
    got: dict[TopicPartition, list[bytes]] = {tp: [] for tp in tps}
    healed_ms, rewound = simulation.clock.now_ms(), False

    def missing() -> list[TopicPartition]:
        return [tp for tp in tps if len(got[tp]) < RECORDS]

    while missing():
        assert simulation.clock.now_ms() < healed_ms + 900_000, missing()
        try:
            batch = consumer.poll(500)
        except KafkaError:
            assert simulation.clock.now_ms() < healed_ms + 60_000, "the errors do not end"
            continue
        if rewound:
            for tp, records in batch.items():
                got[tp] += [record.value for record in records]
        elif consumer.assignment() == set(tps):
            consumer.seek_to_beginning(*tps)
            rewound = True
    for tp, values in got.items():
        assert values == [value_of(tp, offset) for offset in range(RECORDS)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", SEEDS)
def test_garbled_responses_cause_errors_and_nothing_else(seed: int, way: str) -> None:
    with Simulation(f"{way} {seed}", brokers=2) as simulation:
        tps = create_topic(simulation, "orders", 4)
        for tp in tps:
            produce(simulation, tp, RECORDS)
        consumer = simulation.consumer(
            group_id="readers",
            group_protocol="consumer" if way == "consumer" else "classic",
            auto_offset_reset="earliest",
            bootstrap_timeout_ms=0,
            metadata_max_age_ms=1_000,
            reconnect_backoff_max_ms=1_000,
        )
        join(consumer, way, tps)
        garble_responses(simulation, simulation.random.choice([0.02, 0.1, 0.5]))
        use(simulation, consumer, tps)
        simulation.network.heal()
        for broker in simulation.cluster.brokers.values():
            simulation.network.cut(broker.address)  # the negotiated versions may be wrong
        simulation.sleep(10_000)  # and so may the assignment
        join(consumer, way, tps)
        read_all(simulation, consumer, tps)
