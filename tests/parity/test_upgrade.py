"""The page for users of kafka-python 2.x is right about the installed release."""

from __future__ import annotations

import importlib.util

import kafka
import kafka.errors
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.partitioner import Partitioner
from kafka.serializer import Serializer


def test_defaults_of_the_producer() -> None:
    defaults = KafkaProducer.DEFAULT_CONFIG
    assert defaults["acks"] == -1
    assert defaults["enable_idempotence"] is True
    assert defaults["bootstrap_timeout_ms"] == 30_000
    assert not {"api_version_auto_timeout_ms", "buffer_memory"} & defaults.keys()
    assert callable(Serializer.serialize)
    assert callable(Partitioner.partition)


@pytest.mark.parametrize("name", ["BrokerConnection", "KafkaClient"])
def test_a_class_is_gone(name: str) -> None:
    assert not hasattr(kafka, name)


def test_the_base_of_errors_has_changed() -> None:
    assert not hasattr(kafka.errors, "NoBrokersAvailable")
    assert not issubclass(kafka.errors.KafkaError, RuntimeError)


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("kafka.sasl", False),
        ("kafka.conn", False),
        ("kafka.client_async", False),
        ("kafka.net.sasl", True),
    ],
)
def test_a_module_exists(name: str, exists: bool) -> None:
    assert (importlib.util.find_spec(name) is not None) is exists


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("list_consumer_groups", "list_groups"),
        ("describe_consumer_groups", "describe_groups"),
        ("delete_consumer_groups", "delete_groups"),
        ("list_consumer_group_offsets", "list_group_offsets"),
        ("perform_leader_election", "elect_leaders"),
    ],
)
def test_methods_of_the_admin_client_have_new_names(old: str, new: str) -> None:
    assert not hasattr(KafkaAdminClient, old)
    assert callable(getattr(KafkaAdminClient, new))
