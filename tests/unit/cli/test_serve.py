"""`tandem-kafka serve`: its options and errors; the cluster itself is in test_loopback.py."""

from __future__ import annotations

import socket

import pytest
from click.testing import CliRunner

from tandem_kafka.cli.commands import serve
from tandem_kafka.cli.failures import CommandError


def failure(*arguments: str) -> CommandError:
    error = CliRunner().invoke(serve.command, arguments).exception
    assert isinstance(error, CommandError)
    return error


def test_the_embedded_cluster_has_no_choice_of_its_port() -> None:
    error = failure("--port", "9092")
    assert "--port needs --simulated" in str(error)
    assert error.usage


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = failure("--simulated", "--port", str(port))
    assert str(error) == f"port {port} cannot be used: Address already in use"


def test_without_confluent_kafka_the_simulated_cluster_is_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None)  # noqa: ARG005
    assert "or use --simulated" in str(failure())
