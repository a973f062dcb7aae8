"""Checks of the constructor before any request; numbers are those of the behaviour list."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer as TheirConsumer
from kafka.protocol.broker_version_data import BrokerVersionData

from tandem_kafka import AsyncKafkaConsumer, AsyncShareConsumer, KafkaConsumer, ShareConsumer
from tandem_kafka.errors import (
    InvalidArgumentError,
    InvalidGroupIdError,
    KafkaConfigurationError,
    KafkaTimeoutError,
)

Make = Callable[..., KafkaConsumer]


@pytest.mark.behaviour(3)
@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_blank_group_id_fails_construction(
    make: Make, blank: str, network_threads: Callable[[], list[str]]
) -> None:
    with pytest.raises(InvalidGroupIdError, match="blank"):
        make(group_id=blank)
    assert network_threads() == []


@pytest.mark.behaviour(3)
def test_no_group_id_constructs(make: Make) -> None:
    assert make(group_id=None).config["group_id"] is None


def test_config_has_the_given_options_and_all_defaults(make: Make) -> None:
    consumer = make(group_id="group", auto_commit_interval_ms=0.5)
    config = consumer.config
    assert isinstance(config, dict)
    assert config["auto_commit_interval_ms"] == 0.5
    assert config.keys() == KafkaConsumer.DEFAULT_CONFIG.keys()
    assert config["max_poll_records"] == KafkaConsumer.DEFAULT_CONFIG["max_poll_records"]
    assert config["api_version"] is None, "no broker has responded"
    config["group_id"] = "other"
    assert consumer.config["group_id"] == "other", "config is one dict, which the user may change"
    assert consumer.group_metadata().group_id == "group"


def test_config_shows_an_api_version_as_its_release(make: Make) -> None:
    assert make(api_version=(2, 5)).config["api_version"] == (2, 5)
    assert (
        make(api_version=(9, 9)).config["api_version"] == BrokerVersionData((9, 9)).broker_version
    )


@pytest.mark.parametrize("defaults", [KafkaConsumer.DEFAULT_CONFIG, TheirConsumer.DEFAULT_CONFIG])
def test_all_defaults_can_be_passed(
    make: Make, defaults: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    consumer = make(**{**defaults, "bootstrap_timeout_ms": 0})
    assert consumer.config["client_id"]
    assert not recwarn.list


@pytest.mark.behaviour(5)
@pytest.mark.parametrize("policy", ["earliest", "latest", "none", "by_duration:PT1H"])
def test_offset_reset_policies(make: Make, policy: str) -> None:
    assert make(auto_offset_reset=policy).config["auto_offset_reset"] == policy


@pytest.mark.behaviour(5)
@pytest.mark.parametrize(
    "policy", ["by_duration", "by_duration:", "by_duration:-PT1H", "by_duration:1h", "soonest", ""]
)
def test_other_offset_reset_policies_are_rejected(make: Make, policy: str) -> None:
    with pytest.raises(KafkaConfigurationError, match="auto_offset_reset"):
        make(auto_offset_reset=policy)


@pytest.mark.behaviour(6)
def test_generated_client_id_names_group_and_number_or_instance(make: Make) -> None:
    first, second = (make(group_id="billing").config["client_id"] for _ in range(2))
    numbers = [re.fullmatch(r"consumer-billing-(\d+)", name) for name in (first, second)]
    assert all(numbers)
    assert first != second
    static = make(group_id="billing", group_instance_id="desk-7")
    assert static.config["client_id"] == "consumer-billing-desk-7"
    assert re.fullmatch(r"consumer-\d+", make().config["client_id"])
    assert make(client_id="mine", group_id="billing").config["client_id"] == "mine"


@pytest.mark.behaviour(7)
@pytest.mark.parametrize(
    "options",
    [
        {"no_such_option": 1},
        {"security_protocol": "SSL", "ssl_cafile": "there-is-no-such-file.pem"},
        {"security_protocol": "SASL_PLAINTEXT"},
    ],
)
def test_a_failing_constructor_leaves_no_thread(
    make: Make, options: dict[str, Any], network_threads: Callable[[], list[str]]
) -> None:
    with pytest.raises(KafkaConfigurationError, match=re.escape(list(options)[-1])):
        make(**options)
    assert network_threads() == []


class Closable:
    """A deserializer that can be closed."""

    def __init__(self) -> None:
        self.closed = 0

    def deserialize(self, _topic: str, _headers: object, data: bytes | None) -> bytes | None:
        return data

    def close(self) -> None:
        self.closed += 1


@pytest.mark.behaviour(8)
def test_a_failing_constructor_closes_deserializers(
    make: Make, network_threads: Callable[[], list[str]]
) -> None:
    key, value = Closable(), Closable()
    with pytest.raises(KafkaTimeoutError, match=r"127\.0\.0\.1:1"):
        make(bootstrap_timeout_ms=50, key_deserializer=key, value_deserializer=value)
    assert (key.closed, value.closed) == (1, 1)
    assert network_threads() == []


@pytest.mark.behaviour(8)
def test_a_failing_subscription_fails_construction(
    make: Make, network_threads: Callable[[], list[str]]
) -> None:
    value = Closable()
    with pytest.raises(ValueError, match="Topic name"):
        make("to pic", value_deserializer=value)
    assert value.closed == 0  # nothing was begun with it
    assert network_threads() == []


@pytest.mark.parametrize(
    "kind", [KafkaConsumer, AsyncKafkaConsumer, ShareConsumer, AsyncShareConsumer]
)
@pytest.mark.parametrize("topic", [{"bootstrap.servers": "broker:9092"}, ["orders"], "ord.*"])
def test_topics_are_checked_before_any_wait(kind: Any, topic: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        kind(topic, bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=50, group_id="group")


@pytest.mark.behaviour(8)
def test_a_failing_constructor_closes_interceptors_and_deserializers(make: Make) -> None:
    class Looks(Closable):
        def on_commit(self, offsets: object) -> None: ...

    class Fails:
        on_consume = Looks.on_commit

        def __init__(self) -> None:
            raise LookupError("no such thing")

    looks, value = Looks(), Closable()
    with pytest.raises(LookupError, match="no such thing"):
        make(interceptor_classes=[looks, Fails])
    assert looks.closed == 1
    with pytest.raises((KafkaConfigurationError, OSError), match="nowhere"):
        make(
            interceptor_classes=[looks],
            value_deserializer=value,
            security_protocol="SSL",
            ssl_cafile="/nowhere.pem",
        )
    assert (looks.closed, value.closed) == (2, 1)
