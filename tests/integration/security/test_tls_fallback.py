"""Brokers with TLS that OpenSSL takes and rustls does not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing.kafka import RealKafka, broker
from tandem_kafka_testing.kafka.security import Certificates
from tests.integration.polling import read_all
from tests.integration.reference import in_kafka_python
from tests.unit.network.certificates import issue

pytestmark = pytest.mark.full("starts brokers of its own")

CBC = {
    "ssl.enabled.protocols": "TLSv1.2",
    "ssl.cipher.suites": (
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"
    ),
}


class OfVersion1(Certificates):
    """Like `Certificates`, but the broker's certificate is of X.509 version 1."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        authority = issue("an authority", authority=True)
        server = issue("localhost", authority, version_1=True)
        self.authority.write_bytes(authority.pem)
        self.broker.write_bytes(server.key_pem() + server.pem)


@pytest.mark.parametrize("kind", ["version 1", "CBC"])
def test_a_group_reads_and_commits(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if kind == "version 1":
        monkeypatch.setattr(broker, "Certificates", OfVersion1)
    with RealKafka(properties=CBC if kind == "CBC" else None) as cluster:
        topic = cluster.admin.create_topic("old-tls", 1)
        cluster.admin.produce(topic, [b"%d" % number for number in range(100)])
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap("SSL"),
            "security_protocol": "SSL",
            "ssl_cafile": str(cluster.certificates.authority),
            "ssl_check_hostname": kind == "CBC",  # version 1 has no place for an address
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        count = "result = sum(map(len, consumer.poll(timeout_ms=30_000).values()))"
        assert in_kafka_python(count, topic, group_id="reference", **options) == 100
        with KafkaConsumer(topic, group_id="ours", **options) as consumer:
            assert len(read_all(consumer, 100)) == 100
            consumer.commit()
            assert consumer.committed(TopicPartition(topic, 0)) == 100
    warnings_logged = [
        record
        for record in caplog.records
        if record.name.startswith("tandem_kafka") and record.levelno >= logging.WARNING
        if record.name != "tandem_kafka.network.node_state"  # a busy machine has slow brokers
    ]
    assert len(warnings_logged) == (1 if native_available else 0)
