"""Flags, environment and files: names of three clients become options, in their order."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from packages.cli.tests.commands import Run
from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka_cli.settings.files import cluster_names, read_file
from tandem_kafka_cli.settings.layers import Flags, resolved
from tandem_kafka_cli.settings.names import Property, options_from

CLUSTERS = """
default = "local"

[clusters.local]
bootstrap.servers = "localhost:9092"

[clusters.prod]
properties = "client.properties"
bootstrap.servers = ["a:1", "b:2"]
check_crcs = false
"""
JAVA = r"""
# a comment
! another
bootstrap.servers: ignored:1
security.protocol=SASL_SSL
sasl.mechanism = SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="me" password="a=b,\\"c";
ssl.truststore.location=ca.pem
ssl.truststore.type=PEM
ssl.endpoint.identification.algorithm=
key.deserializer=org.example.Text
enable.auto.commit=true
schema.registry.url=http://registry
group.id=billing
"""
KCAT = r"""
bootstrap.servers=kafka:9092
security.protocol=sasl_ssl
sasl.mechanisms=PLAIN
sasl.username=me
sasl.password=back\slash
ssl.ca.location=ca.pem
queue.buffering.max.ms=5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem-kafka.toml").write_text(CLUSTERS)
    (tmp_path / "client.properties").write_text(JAVA)
    (tmp_path / "kcat.conf").write_text(KCAT)
    return tmp_path


def test_properties_of_java(folder: Path) -> None:
    found = options_from(read_file(folder / "client.properties", None))
    assert found == {
        "bootstrap_servers": "ignored:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "me",
        "sasl_plain_password": 'a=b,"c',
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
        "group_id": "billing",
    }


def test_properties_of_librdkafka_have_no_escapes(folder: Path) -> None:
    found = options_from(read_file(folder / "kcat.conf", None))
    assert found == {
        "bootstrap_servers": "kafka:9092",
        "security_protocol": "sasl_ssl",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": r"back\slash",
        "ssl_cafile": "ca.pem",
    }


def test_a_named_cluster_with_a_file_of_properties(folder: Path) -> None:
    found = options_from(read_file(folder / "tandem-kafka.toml", "prod"))
    assert found["bootstrap_servers"] == "a:1,b:2"
    assert found["check_crcs"] is False
    assert found["sasl_plain_username"] == "me"


def test_names_of_clusters_are_completed(folder: Path) -> None:
    assert cluster_names(folder / "tandem-kafka.toml") == ["local", "prod"]
    assert cluster_names(folder / "missing.toml") == []


def resolve(flags: Flags, folder: Path, **variables: str) -> dict[str, object]:
    return resolved(flags, {"XDG_CONFIG_HOME": str(folder), **variables})


def test_a_flag_overrides_the_environment_which_overrides_a_file(folder: Path) -> None:
    variables = {
        "TANDEM_KAFKA_X_SASL_PASSWORD": "variable",
        "TANDEM_KAFKA_X_CLIENT_RACK": "variable",
    }
    flags = Flags(cluster="prod", properties=("client.rack=flag",))
    found = resolve(flags, folder, **variables)
    assert found["sasl_plain_username"] == "me"
    assert found["sasl_plain_password"] == "variable"
    assert found["client_rack"] == "flag"
    assert found["bootstrap_servers"] == "a:1,b:2"


def test_the_default_cluster_and_another(folder: Path) -> None:
    assert resolve(Flags(), folder)["bootstrap_servers"] == "localhost:9092"
    chosen = resolve(Flags(), folder, TANDEM_KAFKA_CLUSTER="prod")
    assert chosen["bootstrap_servers"] == "a:1,b:2"


def test_given_brokers_get_no_password_of_a_default_cluster(folder: Path) -> None:
    text = CLUSTERS.replace('"local"', '"prod"', 1)
    (folder / "tandem-kafka.toml").write_text(text)
    assert resolve(Flags(), folder)["sasl_plain_username"] == "me"
    for found in (
        resolve(Flags(brokers="other:1"), folder),
        resolve(Flags(brokers="other:1"), folder, TANDEM_KAFKA_CLUSTER="prod"),
        resolve(Flags(), folder, TANDEM_KAFKA_BROKERS="other:1"),
    ):
        assert found["bootstrap_servers"] == "other:1"
        assert "sasl_plain_username" not in found


def test_brokers_override_those_of_a_chosen_cluster(folder: Path) -> None:
    found = resolve(Flags(brokers="other:1", cluster="prod"), folder)
    assert found["bootstrap_servers"] == "other:1"
    assert found["sasl_plain_username"] == "me"


def test_a_file_from_a_variable(folder: Path) -> None:
    found = resolve(Flags(), folder, TANDEM_KAFKA_CONFIG=str(folder / "kcat.conf"))
    assert found["bootstrap_servers"] == "kafka:9092"


def test_settings_that_need_an_ssl_context(folder: Path) -> None:
    properties = ("security.protocol=ssl", "enable.ssl.certificate.verification=false")
    found = resolve(Flags(brokers="a:1", properties=properties), folder)
    assert isinstance(found["ssl_context"], ssl.SSLContext)
    assert found["ssl_context"].verify_mode == ssl.CERT_NONE


def test_a_unit_of_librdkafka_is_converted() -> None:
    found = options_from([Property("queued.max.messages.kbytes", "2", "-X")])
    assert found == {"fetch_buffer_max_bytes": 2048}


def test_a_token_endpoint_in_a_file_of_librdkafka() -> None:
    given = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://host/token",
        "https.ca.location": "ca.pem",
    }
    assert options_from([Property(name, value, "-X") for name, value in given.items()]) == {
        "sasl_oauthbearer_token_endpoint_url": "https://host/token",
        "sasl_oauthbearer_cafile": "ca.pem",
    }


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (Flags(), "no brokers are given: use -b HOST:PORT"),
        (Flags(brokers="a:1", properties=("fetch.min.byte=1",)), "did you mean fetch.min.bytes?"),
        (Flags(brokers="a:1", properties=("x",)), "-X x: write -X KEY=VALUE"),
        (Flags(brokers="a:1", properties=("acks=1",)), "acks cannot be set: it has no effect here"),
        (Flags(brokers="a:1", properties=("auto.offset.reset=earliest",)), "the command sets it"),
        (Flags(brokers="a:1", properties=("check.crcs=maybe",)), "must be true or false"),
        (Flags(brokers="a:1", properties=("sasl.oauthbearer.method=default",)), "must be oidc"),
        (
            Flags(brokers="a:1", properties=("ssl.truststore.location=x.jks",)),
            "with ssl.truststore.type=PEM",
        ),
        (Flags(cluster="x"), "tandem-kafka.toml"),
    ],
)
def test_wrong_settings(flags: Flags, text: str, tmp_path: Path) -> None:
    with pytest.raises((KafkaConfigurationError, OSError), match=text.replace("?", r"\?")):
        resolve(flags, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "cluster", "text"),
    [
        ("a.toml", "[clusters", None, "a.toml: "),
        ("a.toml", "[cluster.x]", None, "unknown key 'cluster'"),
        ("a.toml", "[clusters]\nx = 1", None, r"\[clusters.NAME\]"),
        ("a.toml", "[clusters.x]", "y", "has no cluster 'y'; it has: x"),
        ("a.properties", "", "y", "has no named clusters"),
        ("a.conf", "words", None, "a.conf:1: write key=value"),
    ],
)
def test_wrong_files(
    tmp_path: Path, name: str, content: str, cluster: str | None, text: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(KafkaConfigurationError, match=text):
        read_file(path, cluster)


def test_an_unknown_name_in_a_file_shows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("# first\nfetch.min.byte=1\n")
    with pytest.raises(KafkaConfigurationError, match=r"a\.conf:2: there is no option"):
        options_from(read_file(path, None))


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        (["-X", "sasl.password:hunter2"], {}),
        (["-X", "sasl.password hunter2"], {}),
        ([], {"TANDEM_KAFKA_X_FETCH_MAX_BYTES": "password=hunter2"}),
        ([], {"TANDEM_KAFKA_X_ENABLE_AUTO_COMMIT": "//me:hunter2@host"}),
        (["-b", "kafka://me:hunter2@host:1"], {}),
    ],
)
def test_no_error_shows_a_password(run: Run, flags: list[str], variables: dict[str, str]) -> None:
    ran = run("topics", *flags, variables=variables)
    assert ran.code == 2
    assert "hunter2" not in ran.err
