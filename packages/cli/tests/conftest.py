"""The command `tandem-kafka` on a simulated cluster with its own time."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from packages.cli.tests.commands import Run, runner
from packages.cli.tests.registries import SCHEMA, Registry, running
from tandem_kafka_cli.environment import Environment
from tandem_kafka_cli.records import decoding
from tandem_kafka_testing.laboratory import SimulatedKafka


def _shop() -> bytes:
    """Return the descriptor of a file with two messages."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    order.field.add(name="note", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
    file.message_type.add(name="Other")
    written: bytes = file.SerializeToString()
    return written


SHOP = _shop()


@pytest.fixture
def cluster() -> Iterator[SimulatedKafka]:
    """A cluster with the topic `orders`, of two partitions."""
    kafka = SimulatedKafka()
    kafka.create_topic("orders", 2)
    yield kafka
    kafka.close()


@pytest.fixture
def descriptors(tmp_path: Path) -> Path:
    """A descriptor set with the message `shop.Order`."""
    file = tmp_path / "shop.desc"
    file.write_bytes(b"\x0a" + bytes([len(SHOP)]) + SHOP)
    return file


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry with schemas of Avro (7), Protobuf (9) and JSON (10)."""
    monkeypatch.setattr(decoding, "PATIENCE_MS", 100)
    monkeypatch.setattr(decoding, "ANSWER_S", 1)
    with running() as registry:
        registry.add(7, SCHEMA)
        registry.add(9, base64.b64encode(SHOP).decode(), "PROTOBUF")
        registry.add(10, "{}", "JSON")
        yield registry


@pytest.fixture
def run(cluster: SimulatedKafka, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a command on the simulated cluster."""
    simulation = cluster.simulation
    environment = Environment(
        variables={"TANDEM_KAFKA_BROKERS": simulation.cluster.bootstrap(), "HOME": "/nowhere"},
        consumer=simulation.consumer,
        clock=simulation.clock,
        sleep_ms=lambda duration_ms: simulation.sleep(round(duration_ms)),
    )
    with runner(environment, capsys) as run_command:
        yield run_command
