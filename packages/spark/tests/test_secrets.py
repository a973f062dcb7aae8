"""The passwords of a query do not appear in plans, progress or logs."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from tandem_kafka.errors import KafkaError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.sources import PYTHONPATH, ROOT

from pyspark_tandem_kafka.options import SourceOptions  # isort: skip - needs pyspark, see session
from pyspark_tandem_kafka.columns import RowShape  # isort: skip
from pyspark_tandem_kafka.cluster import Cluster  # isort: skip
from pyspark_tandem_kafka.ranges import OffsetRange  # isort: skip
from pyspark_tandem_kafka.reading import Reading  # isort: skip
from pyspark_tandem_kafka.schema import full_schema  # isort: skip
from pyspark_tandem_kafka.source import TandemKafkaDataSource  # isort: skip

KEY_PASSWORD = "unlock-the-key"
WRONG = "hush-hush"
SECRETS = (PASSWORD, KEY_PASSWORD, WRONG)


@pytest.fixture
def secured(kafka: RealKafka, tmp_path: Path) -> dict[str, str]:
    files = kafka.certificates
    key = load_pem_private_key(files.client_key.read_bytes(), password=None)
    locked = BestAvailableEncryption(KEY_PASSWORD.encode())
    store = tmp_path / "store.pem"
    store.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
        + files.client_certificate.read_bytes()
    )
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "kafka.bootstrap.servers": kafka.bootstrap("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="alice" password="{PASSWORD}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(files.authority),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(store),
        "kafka.ssl.key.password": KEY_PASSWORD,
    }


def test_a_job_shows_no_secrets(
    kafka: RealKafka, topic: str, secured: dict[str, str], tmp_path: Path
) -> None:
    """Checks Spark's log at INFO, plans, progress, checkpoint and web pages."""
    kafka.admin.produce(topic, [b"x"] * 10)
    ran = subprocess.run(
        [sys.executable, "-m", "packages.spark.tests.secret_job", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "PYSPARK_PYTHON": sys.executable},
        input=json.dumps({**secured, "topic": topic}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    assert "INFO" in ran.stderr
    sections = ran.stdout.split("== ")[1:]
    places = {each.partition("\n")[0] for each in sections}
    assert places > {"plans of the source", "plans of the query", "web page of a query"}
    for each in (*sections, ran.stderr):
        shown = [secret for secret in SECRETS if secret in each]
        assert not shown, f"{shown} in {each[:200]}"


def test_our_logs_and_objects_show_no_secrets(
    kafka: RealKafka, topic: str, secured: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Checks the log at DEBUG, and repr() of all objects made from options."""
    caplog.set_level(logging.DEBUG)
    kafka.admin.produce(topic, [b"x"] * 10)
    given = {**secured, "subscribe": topic}
    options = SourceOptions.parse(given, streaming=False)
    reading = Reading.of(options, RowShape(full_schema(headers=False)))
    with Cluster(options) as cluster:
        assert len(cluster.latest(cluster.partitions())) == 1
    assert sum(each.num_rows for each in reading.read(OffsetRange(topic, 0, 0, 10))) == 10
    login = given["kafka.sasl.jaas.config"].replace(PASSWORD, WRONG)
    wrong = {**given, "kafka.sasl.jaas.config": login, "fetchOffset.numRetries": "1"}
    with (
        Cluster(SourceOptions.parse(wrong, streaming=False)) as rejected,
        pytest.raises(KafkaError, match="uthentication") as error,
    ):
        rejected.partitions()
    source = TandemKafkaDataSource(given)
    schema = source.schema()
    writer = TandemKafkaDataSource({**secured, "topic": topic}).writer(schema, False)
    made = (options, reading, cluster, source, source.reader(schema), writer, writer._options)
    assert "retrying the lookup of offsets" in caplog.text
    shown = caplog.text + "".join(map(repr, (*made, source.streamReader(schema), error.value)))
    assert not [secret for secret in SECRETS if secret in shown]
