"""`tandem-kafka doctor` names the step that fails, on real brokers and on ports that are none."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme
from confluent_kafka.admin import AclOperation, ResourceType

from tandem_kafka.cli.environment import Environment
from tandem_kafka.testing.kafka import RealKafka
from tandem_kafka.testing.kafka.security import PASSWORD
from tests.commands import Run, runner
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
    assert {each["verdict"] for each in found} == {"ok"}, found
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


def test_people_read_the_same(kafka: RealKafka, run: Run) -> None:
    ran = run("doctor", "-b", kafka.bootstrap("PLAINTEXT"), "-t", "nothing")
    lines = ran.out.splitlines()
    assert ran.code == 1
    assert max(map(len, lines)) < 200
    assert any(line.startswith("  FAIL  topic ") for line in lines)
    assert lines[-1].startswith("1 of ")
