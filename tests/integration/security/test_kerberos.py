"""GSSAPI with a KDC and a broker of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import SaslAuthenticationFailedError
from tandem_kafka_testing.kafka.broker import QUICK_START, RealKafka
from tests.integration.polling import read_all
from tests.kafka.kdc import SERVICE, Kdc

pytestmark = pytest.mark.full("starts brokers of its own")

pytest.importorskip("gssapi", reason="install gssapi", exc_type=ImportError)


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    reason = Kdc.missing()
    if reason is not None:
        pytest.skip(reason)
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    yield kdc
    kdc.close()


@pytest.fixture(scope="module")
def cluster(kdc: Kdc) -> Iterator[RealKafka]:
    module = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{kdc.keytab}" principal="{SERVICE}";'
    )
    config = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": module,
        "listener.name.sasl_ssl.gssapi.sasl.jaas.config": module,
    }
    options = (*QUICK_START, f"-Djava.security.krb5.conf={kdc.config}")
    with RealKafka(properties=config, jvm_options=options) as cluster:
        yield cluster


@pytest.mark.usefixtures("implementation")
def test_a_member_logs_in_with_a_ticket(
    kdc: Kdc, cluster: RealKafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "/nowhere")
    topic = cluster.admin.create_topic(f"kerberos-{tmp_path.name}")
    cluster.admin.produce(topic, [b"1", b"2"])
    options = {
        "bootstrap_servers": cluster.bootstrap("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_domain_name": "localhost",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with pytest.raises(SaslAuthenticationFailedError, match="SASL GSSAPI"):
        KafkaConsumer(**options)
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.client_keytab))
    with KafkaConsumer(topic, group_id=topic, **options) as consumer:
        assert len(read_all(consumer, 2)) == 2
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == 2
