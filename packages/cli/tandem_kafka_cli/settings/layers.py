"""The options of a connection: a flag overrides the environment, which overrides a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka_cli.settings.files import default_file, read_file
from tandem_kafka_cli.settings.names import Property, options_from, with_ssl_context

BROKERS: Final = "TANDEM_KAFKA_BROKERS"
CLUSTER: Final = "TANDEM_KAFKA_CLUSTER"
CONFIG: Final = "TANDEM_KAFKA_CONFIG"
#: `TANDEM_KAFKA_X_SASL_PASSWORD` is `-X sasl.password`, without a password in the process list.
OPTION: Final = "TANDEM_KAFKA_X_"

#: A command is not a service: somebody waits for its error.
_DEFAULTS: Final[Mapping[str, Any]] = {
    "client_id": "tandem-kafka-cli",
    "bootstrap_timeout_ms": 10_000,
    "default_api_timeout_ms": 30_000,
    "allow_auto_create_topics": False,
    "enable_auto_commit": False,
}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that describe a connection, as they were written.

    Attributes:
        brokers: `-b`.
        cluster: `--cluster`.
        config: `--config`.
        properties: Each `-X key=value`.
    """

    brokers: str | None = None
    cluster: str | None = None
    config: str | None = None
    properties: tuple[str, ...] = ()


def resolved(flags: Flags, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a consumer.

    A cluster is chosen by a flag, else by a variable, else by the file. The default cluster of a
    file does not apply if brokers are given: its password is not for them.

    Raises:
        KafkaConfigurationError: A setting is invalid, or no brokers are given.
        OSError: A file that was named cannot be read.
    """
    options = dict(_DEFAULTS)
    for layer in (_of_file(flags, environment), _of_environment(environment), _of_flags(flags)):
        options.update(options_from(layer))
    if "bootstrap_servers" not in options:
        raise KafkaConfigurationError(
            f"no brokers are given: use -b HOST:PORT, set {BROKERS}, or name a cluster with "
            f"--cluster and describe it in {default_file(environment)}"
        )
    return with_ssl_context(options)


def _of_file(flags: Flags, environment: Mapping[str, str]) -> list[Property]:
    named = flags.config or environment.get(CONFIG)
    cluster = flags.cluster
    if cluster is None and flags.brokers is None:
        cluster = environment.get(CLUSTER)
    path = Path(named).expanduser() if named else default_file(environment)
    brokers_given = bool(flags.brokers or environment.get(BROKERS))
    if cluster is None and brokers_given and path.suffix == ".toml":
        return []
    if cluster is not None and not path.exists():
        raise KafkaConfigurationError(
            f"the cluster {cluster!r} is unknown, because {path} does not exist: write it, or name "
            "another file with --config"
        )
    if named or path.exists():
        return read_file(path, cluster)
    return []


def _of_environment(environment: Mapping[str, str]) -> Iterator[Property]:
    if environment.get(BROKERS):
        yield Property("bootstrap.servers", environment[BROKERS], BROKERS)
    for variable, value in sorted(environment.items()):
        if variable.startswith(OPTION):
            yield Property(variable.removeprefix(OPTION).lower(), value, variable)


def _of_flags(flags: Flags) -> Iterator[Property]:
    if flags.brokers is not None:
        yield Property("bootstrap.servers", flags.brokers, "-b")
    for text in flags.properties:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            # What follows the name may be a password.
            named = re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0]
            raise KafkaConfigurationError(
                f"-X {named if named == text else f'{named}...'}: write -X KEY=VALUE"
            )
        yield Property(name, value, "-X")
