"""`tandem-kafka doctor` names the step that fails, on real brokers and on ports that are none."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme
from confluent_kafka.admin import AclOperation, ResourceType

from packages.cli.tests.commands import Run, runner
from tandem_kafka import KafkaConsumer, OffsetAndMetadata, ShareConsumer, TopicPartition
from tandem_kafka_cli.environment import Environment
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tandem_kafka_testing.served import ServedKafka
from tests.integration.logins import allow

Examine = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    with runner(Environment(variables={"HOME": "/nowhere"}), capsys) as run:
        yield run


@pytest.fixture
def examine(run: Run) -> Examine:
    """Runs `doctor --json`, checks the exit code, and returns the findings."""

    def examined(servers: str, *arguments: str, **properties: str) -> list[dict[str, Any]]:
        options = [f"-X{name.replace('_', '.')}={value}" for name, value in properties.items()]
        ran = run("doctor", "-b", servers, "--timeout", "20s", "--json", *arguments, *options)
        assert ran.code == any(each["verdict"] == "failed" for each in ran.rows)
        assert all(each["advice"] for each in ran.rows if each["verdict"] == "failed")
        return ran.rows

    return examined


def failure(found: list[dict[str, Any]], step: str) -> str:
    """Return what was seen in the only failed step."""
    failed = [each for each in found if each["verdict"] == "failed"]
    assert [each["step"] for each in failed] == [step], json.dumps(found, indent=1)
    return str(failed[0]["seen"])


def login(password: str = PASSWORD, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": password,
    }


def tls(kafka: RealKafka) -> dict[str, str]:
    return {"security_protocol": "SSL", "ssl_ca_location": str(kafka.certificates.authority)}


def test_a_good_connection_passes_every_step(
    kafka: RealKafka, topic: str, examine: Examine
) -> None:
    found = examine(kafka.bootstrap("SSL"), "-t", topic, "-g", "readers", **tls(kafka))
    assert {each["verdict"] for each in found} == {"ok"}, json.dumps(found, indent=1)
    assert [each["step"] for each in found] == [
        "options", "name", "tcp", "tls", "sasl", "api versions", "metadata",
        "advertised listeners", "topic", "clock", "coordinator", "group",
    ]  # fmt: skip
    (seen,) = (each["seen"] for each in found if each["step"] == "tls")
    assert "TLSv1.3" in seen
    assert "localhost, 127.0.0.1" in seen


def test_a_name_that_does_not_exist(examine: Examine) -> None:
    assert "no address" in failure(examine("nowhere.invalid:9092"), "name")


def test_a_closed_port(examine: Examine) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        found = examine(f"127.0.0.1:{closed.getsockname()[1]}")
    assert "refused" in failure(found, "tcp")


@pytest.fixture
def silent_port() -> Iterator[str]:
    """A server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_port_of_something_else(silent_port: str, examine: Examine) -> None:
    found = examine(silent_port, "--timeout", "1s")
    text = failure(found, "api versions")
    assert text == "it accepts connections, but has not responded within 1000 ms"


def test_tls_to_a_port_without(kafka: RealKafka, examine: Examine) -> None:
    found = examine(kafka.bootstrap("PLAINTEXT"), "--timeout", "2s", **tls(kafka))
    assert failure(found, "tls").startswith("no TLS handshake")


def test_no_tls_to_a_port_with(kafka: RealKafka, examine: Examine) -> None:
    found = examine(kafka.bootstrap("SSL"), "--timeout", "4s")
    assert "the port speaks TLS" in failure(found, "tls")


def test_an_unknown_authority(kafka: RealKafka, examine: Examine, tmp_path: Any) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    found = examine(kafka.bootstrap("SSL"), **{**tls(kafka), "ssl_ca_location": str(other)})
    seen = failure(found, "tls")
    assert "unable to get local issuer" in seen
    assert "issued by" in seen


def test_a_file_that_is_missing(kafka: RealKafka, examine: Examine) -> None:
    found = examine(kafka.bootstrap("SSL"), **{**tls(kafka), "ssl_ca_location": "missing.pem"})
    assert "ssl_cafile: cannot read missing.pem" in failure(found, "options")


def test_a_wrong_password(kafka: RealKafka, examine: Examine) -> None:
    found = examine(kafka.bootstrap("SASL_PLAINTEXT"), **login("wrong"))
    failure(found, "sasl")
    assert "wrong" not in json.dumps(found)


@pytest.mark.full("takes long on a real broker")
def test_an_address_that_cannot_be_reached(examine: Examine) -> None:
    with RealKafka(advertise=lambda _: {"SASL_PLAINTEXT": 1}) as cluster:
        found = examine(cluster.bootstrap("SASL_PLAINTEXT"), **login())
    seen = failure(found, "advertised listeners")
    assert seen.startswith("broker 1 advertises 127.0.0.1:1: ")
    assert "refused" in seen


def test_a_mistyped_topic(kafka: RealKafka, topic: str, examine: Examine) -> None:
    found = examine(kafka.bootstrap("PLAINTEXT"), "-t", f"{topic}s")
    assert "does not exist" in failure(found, "topic")
    assert f"did you mean {topic!r}?" in found[-1]["advice"]


@pytest.mark.full("takes long on a real broker")
def test_missing_permissions(guarded: RealKafka, examine: Examine) -> None:
    topic, servers = "examined-by-doctor", guarded.bootstrap("SASL_PLAINTEXT")
    guarded.admin.create_topic(topic, 1)

    def examined(*arguments: str) -> str:
        return json.dumps(examine(servers, *arguments, **login()))

    allow(guarded, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    assert "not read it" in examined("-t", topic)
    assert "may not describe the group" in examined("-g", topic)
    allow(guarded, ResourceType.GROUP, topic, AclOperation.DESCRIBE)
    assert "may not read (join)" in examined("-g", topic)
    allow(guarded, ResourceType.GROUP, topic, AclOperation.READ)
    assert "may join and commit" in examined("-g", topic)


def of_share_group(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return verdict and text of each finding about a share group."""
    return [(each["verdict"], each["seen"]) for each in found if each["step"] == "share group"]


@pytest.mark.both_clusters(everyday="simulated")
def test_a_share_group(kafka: RealKafka, topic: str, examine: Examine) -> None:
    servers, name = kafka.bootstrap(), f"share-{topic}"
    assert of_share_group(examine(servers, "-g", name)) == []
    settings = (
        "share.auto.offset.reset=latest, share.isolation.level=read_uncommitted, "
        "share.record.lock.duration.ms={}, share.delivery.count.limit=5"
    )
    assert of_share_group(examine(servers, "-g", name, "--share")) == [
        ("ok", "it does not exist yet: its first member will make it"),
        ("ok", settings.format(30_000)),
    ]
    kafka.admin.configure_group(name, {"share.record.lock.duration.ms": "20000"})
    with ShareConsumer(topic, group_id=name, bootstrap_servers=servers) as member:
        member.poll(timeout_ms=2_000)
        assert of_share_group(examine(servers, "-g", name)) == [
            ("ok", "Stable, 1 member"),
            ("ok", settings.format(20_000)),
        ]


@pytest.mark.both_clusters
def test_a_group_of_another_kind(kafka: RealKafka, topic: str, examine: Examine) -> None:
    servers, name = kafka.bootstrap(), f"readers-{topic}"
    with KafkaConsumer(group_id=name, bootstrap_servers=servers) as consumer:
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
    found = examine(servers, "-g", name, "--share")
    assert failure(found, "share group") == "it is a classic group"


def of_committed(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return verdict and text of each finding about committed offsets."""
    return [
        (each["verdict"], each["seen"]) for each in found if each["step"] == "committed offsets"
    ]


@pytest.mark.both_clusters(everyday="simulated")
def test_committed_offsets_that_the_partition_does_not_have(
    kafka: RealKafka, topic: str, examine: Examine
) -> None:
    servers, name, tp = kafka.bootstrap(), f"readers-{topic}", TopicPartition(topic, 0)
    kafka.admin.produce(topic, [b"record"] * 10)
    with KafkaConsumer(group_id=name, bootstrap_servers=servers) as consumer:

        def examined(offset: int) -> list[tuple[str, str]]:
            consumer.commit({tp: OffsetAndMetadata(offset, "", -1)})
            return of_committed(examine(servers, "-g", name))

        for offset in (0, 10):
            assert examined(offset) == [("ok", "in 1 partition, all within their offsets")]
        kafka.admin.delete_records(topic, {0: 4})
        text = f"{topic} 0: {{}} is committed, but the partition has 4 to 10"
        assert examined(1_000) == [("warning", text.format("1,000"))]
        assert examined(3) == [("warning", text.format("3"))]
        assert examined(4) == [("ok", "in 1 partition, all within their offsets")]


def test_a_cluster_without_share_groups(examine: Examine) -> None:
    with ServedKafka(kafka="3.9") as served:
        found = examine(served.bootstrap, "-g", "g", "--share")
        assert of_share_group(examine(served.bootstrap, "-g", "g")) == []
    assert failure(found, "share group") == "the cluster has no share groups (KIP-932)"
    (advice,) = (each["advice"] for each in found if each["step"] == "share group")
    assert advice.startswith("they need Kafka 4.2, and the feature share.version=1")


@pytest.mark.full("takes long on a real broker")
def test_missing_permissions_on_a_share_group(guarded: RealKafka, examine: Examine) -> None:
    servers, name = guarded.bootstrap("SASL_PLAINTEXT"), "shared-with-doctor"
    allow(guarded, ResourceType.GROUP, name, AclOperation.READ)
    hidden = of_share_group(examine(servers, "-g", name, "--share", **login()))
    assert hidden[-1] == ("warning", "this user may not see the settings of the group")
    allow(guarded, ResourceType.GROUP, name, AclOperation.DESCRIBE_CONFIGS)
    (_, (verdict, _)) = of_share_group(examine(servers, "-g", name, "--share", **login()))
    assert verdict == "ok"


def test_share_needs_a_group(run: Run) -> None:
    ran = run("doctor", "-b", "127.0.0.1:1", "--share")
    assert (ran.code, ran.err) == (2, "tandem-kafka: --share needs -g GROUP\n")


def test_people_read_the_same(kafka: RealKafka, run: Run) -> None:
    ran = run("doctor", "-b", kafka.bootstrap("PLAINTEXT"), "-t", "nothing")
    lines = ran.out.splitlines()
    assert ran.code == 1
    assert max(map(len, lines)) < 200
    assert any(line.startswith("  FAIL  topic ") for line in lines)
    assert lines[-1].startswith("1 of ")
