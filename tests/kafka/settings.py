"""The settings of a broker: `server.properties` as a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.kafka.security import PASSWORD, SCRAM_MECHANISMS, USERS, Certificates

__all__ = ["LISTENERS", "BrokerAddress", "broker_settings", "write_properties"]

#: The listeners that clients use, named after their security protocols.
LISTENERS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")

_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker's id and the port of each of its listeners.

    Attributes:
        advertised: Ports that clients are told instead, of a proxy for example.
    """

    node_id: int
    controller_port: int
    ports: Mapping[str, int]
    advertised: Mapping[str, int] = field(default_factory=dict)

    def listeners(self) -> str:
        """The listeners of clients as the setting `listeners` has them."""
        return _listeners(self.ports)

    def told(self) -> str:
        """The listeners as the setting `advertised.listeners` has them."""
        return _listeners({**self.ports, **self.advertised})


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def broker_settings(
    me: BrokerAddress,
    cluster: Sequence[BrokerAddress],
    data: Path,
    certificates: Certificates,
) -> dict[str, str]:
    """The settings of one combined controller and broker, tuned to answer tests quickly."""
    voters = ",".join(f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in cluster)
    names = ["CONTROLLER", *LISTENERS]
    replicas = str(min(3, len(cluster)))
    return {
        "node.id": str(me.node_id),
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{me.controller_port},{me.listeners()}",
        "advertised.listeners": me.told(),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in names
        ),
        "log.dirs": str(data),
        "broker.rack": f"rack-{me.node_id}",
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
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
        # KIP-848: the broker says how often; rebalances are to be quick in tests.
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.session.timeout.ms": "6000",
        # A killed broker may not register again before its session ended.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        **_tls(certificates),
        **_sasl(),
    }


def _tls(certificates: Certificates) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "requested",
    }


def _sasl() -> dict[str, str]:
    plain_users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    mechanisms = {
        "PLAIN": f"{_MODULES}.plain.PlainLoginModule required {plain_users};",
        **dict.fromkeys(SCRAM_MECHANISMS, f"{_MODULES}.scram.ScramLoginModule required;"),
    }
    settings = {"sasl.enabled.mechanisms": ",".join(mechanisms)}
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism, module in mechanisms.items():
            key = f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"
            settings[key] = module
    return settings


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    lines = [f"{key}={value}\n" for key, value in settings.items()]
    path.write_text("".join(lines), encoding="ascii")
