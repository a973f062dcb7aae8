"""Options on a real broker: ours accepts and shows those of kafka-python's consumer."""

from __future__ import annotations

import logging
import uuid
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from kafka import KafkaConsumer as TheirConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka import KafkaConsumer
from tandem_kafka_testing.kafka import RealKafka

pytestmark = [
    pytest.mark.full("takes long on a real broker"),
    pytest.mark.usefixtures("with_kafka_python"),
]

#: Unusual forms of options. `at` converts addresses to servers.
ODD: dict[str, Callable[[str], dict[str, Any]]] = {
    "a prefix": lambda at: {"bootstrap_servers": f"PLAINTEXT://{at}"},
    "another prefix": lambda at: {"bootstrap_servers": [f"kafka://{at}"]},
    "a set": lambda at: {"bootstrap_servers": {at}},
    "a generator": lambda at: {"bootstrap_servers": (server for server in (at,))},
    "numbers for names": lambda _: {"client_id": 7, "group_id": uuid.uuid4().int >> 64},
    "a UUID": lambda _: {"group_id": uuid.uuid4()},
    "switches": lambda _: {"enable_auto_commit": 0, "check_crcs": 1, "metrics_enabled": None},
    "fractions": lambda _: {"retry_backoff_ms": 0.5, "metadata_max_age_ms": Fraction(60_001, 2)},
    "endless": lambda _: {"connections_max_idle_ms": float("inf"), "bootstrap_timeout_ms": None},
    "negative": lambda _: {"auto_commit_interval_ms": -1, "fetch_min_bytes": -1},
    "in any case": lambda _: {"auto_offset_reset": "Earliest", "isolation_level": "READ-Committed"},
    "a number for a word": lambda _: {"isolation_level": 1},
    "None": lambda _: {"security_protocol": None, "consumer_timeout_ms": None},
    "twice": lambda _: {"partition_assignment_strategy": [RangePartitionAssignor] * 2},
    "a low limit": lambda _: {"reconnect_backoff_max_ms": 10},
    "an id": lambda _: {"group_instance_id": "a b"},
    "without use": lambda _: {
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "user",
        "sasl_plain_password": "word",
        "ssl_cafile": "/there/is/no/such/file",
        "ssl_check_hostname": False,
    },
    "their defaults": lambda at: {**TheirConsumer.DEFAULT_CONFIG, "bootstrap_servers": at},
}
CONSUMERS = [TheirConsumer, KafkaConsumer]


@pytest.fixture(scope="module")
def filled(kafka: RealKafka) -> str:
    """A topic with three records."""
    name = kafka.admin.create_topic(f"options-{uuid.uuid4().hex[:8]}")
    kafka.admin.produce(name, [b"0", b"1", b"2"])
    return name


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", CONSUMERS, ids=["theirs", "ours"])
def test_options_accept_common_spellings(
    kafka: RealKafka, filled: str, kind: type[Any], odd: str
) -> None:
    written = ODD[odd](kafka.bootstrap())
    options = {
        "bootstrap_servers": kafka.bootstrap(),
        "auto_offset_reset": "earliest",
        **written,
        "group_id": written.get("group_id") or uuid.uuid4().hex,
    }
    options["auto_offset_reset"] = written.get("auto_offset_reset", "earliest").replace(
        "latest", "earliest"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        consumer = kind(filled, **options)
    try:
        # kafka-python would assign nothing for ever if it joined before it knew the partitions.
        assert consumer.partitions_for_topic(filled) == {0}
        found: list[Any] = []
        for _ in range(600):  # a passing test never polls that often
            found += [each for batch in consumer.poll(200).values() for each in batch]
            if len(found) == 3:
                break
        assert [each.value for each in found] == [b"0", b"1", b"2"]
        consumer.commit()
    finally:
        consumer.close()


def test_config_matches_that_of_kafka_python(
    kafka: RealKafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    given = {
        "bootstrap_servers": [f"PLAINTEXT://{kafka.bootstrap()}"],
        "client_id": 7,
        "group_id": "shown",
        "isolation_level": 1,
        "fetch_max_bytes": 100_000_000,
        "max_partition_fetch_bytes": 10_000_000,
        "retry_backoff_ms": 0.5,
    }
    theirs, ours = TheirConsumer(**given), KafkaConsumer(**given)
    try:
        assert isinstance(ours.config, dict)
        assert ours.config["api_version"] == theirs.config["api_version"] >= (4, 0)
        differing = {name for name, value in theirs.config.items() if ours.config[name] != value}
        assert differing == {"reconnect_backoff_max_ms"}
    finally:
        theirs.close()
        ours.close()


def test_the_release_is_shown_once_a_broker_has_been_reached(kafka: RealKafka) -> None:
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap(), bootstrap_timeout_ms=0) as consumer:
        consumer.topics()
        assert consumer.config["api_version"] >= (4, 0)
    assert consumer.config["api_version"] >= (4, 0), "after close() too"
