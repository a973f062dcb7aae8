"""A sink whose user has no rights says which one is missing: transactional id, group, topic."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourceType

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.integration.logins import allow

from pyspark_tandem_kafka.options import SinkOptions  # isort: skip
from pyspark_tandem_kafka.producing import DeliveryError  # isort: skip
from pyspark_tandem_kafka.transactions import TaskWrite, deliver_once  # isort: skip

pytestmark = [pytest.mark.broker, pytest.mark.full("starts Spark")]

READ, WRITE = AclOperation.READ, AclOperation.WRITE
#: Longer than a test may take: a refusal that the sink retries never ends.
ENDLESS_MS = "3600000"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RealKafka]:
    with RealKafka(authorizer=True) as cluster:
        yield cluster


def test_each_missing_right_is_named_and_the_sink_works_once_all_are_given(
    guarded: RealKafka,
) -> None:
    """No right on the cluster is needed, as since Kafka 2.8."""
    topic = guarded.admin.create_topic(f"sink-{uuid.uuid4().hex[:8]}")
    write = TaskWrite(f"{topic}-writer", "query q", 0)
    options = SinkOptions.parse(
        {
            "kafka.bootstrap.servers": guarded.bootstrap("SASL_PLAINTEXT"),
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": PASSWORD,
            "topic": topic,
            "tandem.transactionalIdPrefix": write.prefix,
            "tandem.flushTimeoutMs": ENDLESS_MS,
        }
    )
    rights = [
        (ResourceType.TRANSACTIONAL_ID, write.transactional_id, WRITE, "Transactional Id"),
        (ResourceType.GROUP, write.transactional_id, READ, "Group"),
        (ResourceType.TOPIC, topic, WRITE, "Topic"),
        (ResourceType.TOPIC, topic, READ, "Topic"),
    ]
    refusals = []
    for kind, name, operation, _ in rights:
        refusals.append(refusal(options, write))
        allow(guarded, kind, name, operation)
    deliver_once(iter([values()]), options, write)
    for (*_, word), text in zip(rights, refusals, strict=True):
        assert f"{word} authorization failed" in text


def values() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([b"1"], pa.binary())})


def refusal(options: SinkOptions, write: TaskWrite) -> str:
    with pytest.raises(DeliveryError) as caught:
        deliver_once(iter([values()]), options, write)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)
