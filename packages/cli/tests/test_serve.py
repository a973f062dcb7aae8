"""`tandem-kafka serve`: its options and errors; the cluster itself is in test_loopback.py."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from packages.cli.tests.commands import Ran, Run, runner
from tandem_kafka import KafkaConsumer, ShareConsumer
from tandem_kafka_cli.commands import serve
from tandem_kafka_cli.environment import Environment
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_testing import serving
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.served import ServedKafka
from tests.waiting import until

pytestmark = pytest.mark.real_time


def failure(*arguments: str) -> CommandError:
    error = CliRunner().invoke(serve.command, arguments).exception
    assert isinstance(error, CommandError)
    return error


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    with runner(Environment(), capsys) as run:

        def run_on(kafka: ServedKafka, *arguments: str) -> Ran:
            variables = {"TANDEM_KAFKA_BROKERS": kafka.bootstrap, "HOME": "/nowhere"}
            ran = run(*arguments, variables=variables)
            assert ran.code == 0, ran
            return ran

        yield run_on


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_the_members_of_groups_have_clients_and_hosts(commands: Run, protocol: str) -> None:
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap, "client_id": "checkout"}
        if protocol != "share":
            options["group_protocol"] = protocol
        make = ShareConsumer if protocol == "share" else KafkaConsumer
        with make("orders", group_id="billing", **options) as member:
            for _ in until(lambda: member.poll(100)):
                kafka.produce("orders", b"1")
            (described,) = commands(kafka, "groups", "-g", "billing", "-J").rows
            (row,) = described["members"]
            assert (row["client"], row["host"]) == ("checkout", "127.0.0.1")
            (lag,) = commands(kafka, "lag", "-g", "billing", "-J").rows
            assert lag["client"] == "checkout"


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_each_member_has_its_own_client(commands: Run, protocol: str) -> None:
    names = ["checkout", "refunds"]
    with ServedKafka() as kafka, ExitStack() as stack:
        kafka.create_topic("orders", 2)
        options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap, "group_id": "billing"}
        if protocol != "share":
            options["group_protocol"] = protocol
        make = ShareConsumer if protocol == "share" else KafkaConsumer
        members = [stack.enter_context(make("orders", client_id=name, **options)) for name in names]
        seen: list[str] = []
        for _ in until(lambda: seen == names, lambda: seen):
            for each in members:
                each.poll(50)
            rows = commands(kafka, "groups", "billing", "-J").rows
            if [row["members"] for row in rows] == [2]:
                (described,) = commands(kafka, "groups", "-g", "billing", "-J").rows
                seen[:] = sorted(row["client"] for row in described["members"])


def test_the_sizes_of_partitions(commands: Run) -> None:
    """Kafka 0.11 does not tell them."""
    with ServedKafka() as kafka:
        kafka.create_topic("orders", 2)
        kafka.produce("orders", b"x" * 1000)
        sizes = [row["size"] for row in commands(kafka, "partitions", "-t", "orders", "-J").rows]
        assert sizes[0] > 1000
        assert sizes[1] == 0
    with ServedKafka(kafka="0.11") as kafka:
        kafka.create_topic("orders")
        shown = commands(kafka, "partitions", "-t", "orders").out
        assert "LEADER" in shown
        assert "SIZE" not in shown


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = failure("--port", str(port))
    assert str(error) == f"port {port} cannot be used: Address already in use"


def test_the_port_of_the_manual_is_taken_if_it_is_free(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "_keep_up", lambda *_: None)
    (port,) = free_ports(1)
    monkeypatch.setattr(serving, "KAFKA_PORT", port)
    serving.serve(serving.Served(records=1))
    printed = capsys.readouterr()
    assert (printed.out.splitlines()[0], printed.err) == (f"127.0.0.1:{port}", "")
    with socket.create_server(("127.0.0.1", port)):
        serving.serve(serving.Served(records=1))
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] != f"127.0.0.1:{port}"
    assert printed.err == f"port {port} cannot be used: Address already in use; connect to:\n"


def test_a_fault_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "stal"\nat_ms = 5\n')
    error = failure("--faults", str(plan))
    assert str(error).startswith(f"--faults: {plan}: fault 1: kind='stal': must be one of coordina")
    assert error.usage
