"""The plugin of pytest with which kafka-python's own tests run.

Their fixtures start brokers from an unpacked Kafka. Here they get one RealKafka.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import pytest

#: Their topics have four partitions, some of them made by the first record.
_SETTINGS: Final = {"auto.create.topics.enable": "true", "num.partitions": "4"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """With it, kafka-python's own consumer is tested."""
    parser.addoption("--original", action="store_true")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Replace the consumer and the brokers before their `conftest.py` imports them."""
    import tandem_kafka
    from tandem_kafka_testing.kafka import RealKafka
    from tandem_kafka_testing.kafka.security import PASSWORD

    if not early_config.known_args_namespace.original:
        tandem_kafka.install()
    kafka = RealKafka(properties=_SETTINGS)
    early_config.add_cleanup(kafka.close)
    kafka.start()
    os.environ["KAFKA_VERSION"] = ".".join(kafka.version.split(".")[:2])
    # It must exist, for brokers that are not started.
    os.environ["KAFKA_ROOT"] = os.curdir
    _add_the_missing_module()
    fixture: Any = import_module("test.integration.fixtures").KafkaFixture
    fixture.broker_user, fixture.broker_password = "alice", PASSWORD

    def instance(node: int, transport: str = "PLAINTEXT", **settings: Any) -> Any:
        host, port = kafka.bootstrap(transport).split(":")
        settings |= {"transport": transport, "external": True}
        return fixture(host, int(port), node, **settings)

    fixture.instance = instance


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Leave out tests that make no consumer."""
    items[:] = [
        item
        for item in items
        if "kafka_consumer_factory" in item.fixturenames
        or "KafkaConsumer" in item.function.__code__.co_names
    ]


class _Service:
    """In the place of a broker's process."""

    def __init__(self, *_: object) -> None: ...

    def open(self) -> None: ...

    def dump_logs(self) -> None: ...


def _add_the_missing_module() -> None:
    """The source distribution has no module `test.service`, which their fixtures import."""
    module: Any = ModuleType("test.service")
    module.ExternalService = module.SpawnedService = _Service
    sys.modules[module.__name__] = module
