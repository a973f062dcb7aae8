"""`tandem-kafka serve`: its options and errors; the cluster itself is in test_loopback.py."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from tandem_kafka_cli.commands import serve
from tandem_kafka_cli.failures import CommandError

pytestmark = pytest.mark.real_time


def failure(*arguments: str) -> CommandError:
    error = CliRunner().invoke(serve.command, arguments).exception
    assert isinstance(error, CommandError)
    return error


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = failure("--port", str(port))
    assert str(error) == f"port {port} cannot be used: Address already in use"


def test_a_fault_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "stal"\nat_ms = 5\n')
    error = failure("--faults", str(plan))
    assert str(error).startswith(f"--faults: {plan}: fault 1: kind='stal': must be one of coordina")
    assert error.usage
