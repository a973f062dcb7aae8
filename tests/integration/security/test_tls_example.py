"""The example `tls_sasl.py` logs in to a real broker."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.examples.running import EXAMPLES, RunningExample
from tests.integration.logins import allow_all

pytestmark = pytest.mark.full("starts a secured cluster")


@pytest.mark.parametrize(
    ("mechanism", "number"), [("SCRAM-SHA-512", signal.SIGTERM), ("PLAIN", signal.SIGINT)]
)
def test_a_user_logs_in_with_a_password_over_tls(
    guarded: RealKafka, tmp_path: Path, mechanism: str, number: signal.Signals
) -> None:
    topic = group = guarded.admin.new_topic(mechanism)
    allow_all(guarded, topic)
    guarded.admin.produce(topic, [Record(b"%d" % n) for n in range(10)])
    settings = {
        "BOOTSTRAP_SERVERS": guarded.bootstrap("SASL_SSL"),
        "SASL_MECHANISM": mechanism,
        "KAFKA_USER": "alice",
        "KAFKA_PASSWORD": PASSWORD,
        "KAFKA_CA": str(guarded.certificates.authority),
        "TOPIC": topic,
        "GROUP": group,
    }
    with RunningExample(tmp_path, EXAMPLES / "tls_sasl.py", settings=settings) as running:
        running.wait_until(lambda: guarded.admin.committed(group, topic) == 10, "the commit")
        output = running.end(number)
    assert output.count(" at ") == 10
    assert guarded.admin.members(group) == 0
