"""The settings of a broker: `server.properties` as a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tandem_kafka_testing.kafka.security import PASSWORD, SCRAM_MECHANISMS, USERS, Certificates

#: The listeners that clients use, named after their security protocols.
LISTENERS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")

#: The partitions of `__consumer_offsets`. Each has a coordinator with its own state.
OFFSETS_PARTITIONS: Final = 4

_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker's id and the port of each of its listeners.

    Attributes:
        advertised: The ports to advertise to clients instead, for example of a proxy.
        protocols: The security protocol of each listener, by name.
    """

    node_id: int
    controller_port: int
    ports: Mapping[str, int]
    advertised: Mapping[str, int] = field(default_factory=dict)
    protocols: Mapping[str, str] = field(default_factory=dict)

    def listeners(self) -> str:
        """The listeners of clients, in the form of the setting `listeners`."""
        return _listeners(self.ports)

    def advertised_listeners(self) -> str:
        """The listeners in the form of the setting `advertised.listeners`."""
        return _listeners({**self.ports, **self.advertised})


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def broker_settings(
    me: BrokerAddress,
    cluster: Sequence[BrokerAddress],
    data: Path,
    certificates: Certificates,
) -> dict[str, str]:
    """Return the settings of a combined controller and broker, tuned for fast tests."""
    voters = ",".join(f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in cluster)
    protocols = {"CONTROLLER": "PLAINTEXT", **me.protocols}
    replicas = str(min(3, len(cluster)))
    return {
        "node.id": str(me.node_id),
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{me.controller_port},{me.listeners()}",
        "advertised.listeners": me.advertised_listeners(),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "log.dirs": str(data),
        "broker.rack": f"rack-{me.node_id}",
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "min.insync.replicas": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        # The heartbeat interval of KIP-848 members; rebalances must be fast in tests.
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.session.timeout.ms": "6000",
        # Tests of share groups wait for the end of locks.
        "group.share.min.record.lock.duration.ms": "1000",
        # A killed broker cannot register again before its session has expired.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        **_tls(certificates),
        **_sasl(protocols),
    }


def _tls(certificates: Certificates) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "requested",
    }


def _sasl(protocols: Mapping[str, str]) -> dict[str, str]:
    plain_users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    mechanisms = {
        "PLAIN": f"{_MODULES}.plain.PlainLoginModule required {plain_users};",
        **dict.fromkeys(SCRAM_MECHANISMS, f"{_MODULES}.scram.ScramLoginModule required;"),
    }
    settings = {"sasl.enabled.mechanisms": ",".join(mechanisms)}
    for listener in (name for name, protocol in protocols.items() if protocol.startswith("SASL_")):
        for mechanism, module in mechanisms.items():
            key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
            settings[key] = module
    return settings


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    lines = [f"{key}={value}\n" for key, value in settings.items()]
    path.write_text("".join(lines), encoding="ascii")
