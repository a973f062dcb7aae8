"""Options that depend on each other."""

from __future__ import annotations

import ssl

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka.assignors import PartitionAssignor
from tandem_kafka.config import Config
from tandem_kafka.errors import InvalidGroupIdError, KafkaConfigurationError

make = Config.from_options


@pytest.mark.behaviour(3)
@pytest.mark.parametrize("group", ["", " ", "\t\n"])
def test_a_blank_group(group):
    with pytest.raises(InvalidGroupIdError, match="must not be blank"):
        make({"group_id": group})


@pytest.mark.behaviour(4)
def test_auto_commit_without_a_group():
    assert make({}).enable_auto_commit is False
    assert make({"group_id": None, "enable_auto_commit": False}).enable_auto_commit is False


@pytest.mark.behaviour(4)
def test_auto_commit_without_a_group_is_logged_and_off(caplog):
    caplog.set_level("INFO")
    assert make({"enable_auto_commit": True}).enable_auto_commit is False
    assert caplog.messages == ["enable_auto_commit has no effect without a group_id"]


def test_auto_commit_with_a_group():
    assert make({"group_id": "g"}).enable_auto_commit is True
    assert make({"group_id": "g", "enable_auto_commit": False}).enable_auto_commit is False


@pytest.mark.parametrize("instance", ["a", "A-b_c.9", "x" * 249])
def test_instance_ids(instance):
    config = make({"group_id": "g", "group_instance_id": instance})
    assert config.group_instance_id == instance


@pytest.mark.parametrize("instance", [".", "..", "x" * 250, "a b", "ä", "a\n", "a/b"])
def test_instance_ids_that_other_clients_reject_are_logged(instance, caplog):
    config = make({"group_id": "g", "group_instance_id": instance})
    assert config.group_instance_id == instance
    assert "other clients accept only 1 to 249 of" in caplog.text


def test_a_blank_instance_id():
    with pytest.raises(KafkaConfigurationError, match=r"group_instance_id=.*must not be blank"):
        make({"group_id": "g", "group_instance_id": " "})


def test_an_empty_instance_id_is_none():
    """It comes from an unset variable; kafka-python's member is not static then, either."""
    assert make({"group_id": "g", "group_instance_id": ""}).group_instance_id is None


def test_an_instance_id_needs_a_group():
    with pytest.raises(KafkaConfigurationError, match="group_instance_id='a': needs a group_id"):
        make({"group_instance_id": "a"})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"fetch_max_wait_ms": 30_000}, "fetch_max_wait_ms=30000: must be below request_timeout"),
        ({"request_timeout_ms": 540_000}, "request_timeout_ms=540000: must be below connections_"),
        (
            {"request_timeout_ms": 400},
            "request_timeout_ms=400: must be above fetch_max_wait_ms=500",
        ),
        (
            {"connections_max_idle_ms": 1},
            "connections_max_idle_ms=1: must be above request_timeout",
        ),
        (
            {"group_id": "g", "session_timeout_ms": 3_000},
            "session_timeout_ms=3000: must be above heartbeat_interval_ms=3000 \\(the default",
        ),
        (
            {"group_id": "g", "heartbeat_interval_ms": 50_000},
            "heartbeat_interval_ms=50000: must be below session_timeout_ms=45000 \\(the default",
        ),
        (
            {"group_id": "g", "heartbeat_interval_ms": 9_000, "session_timeout_ms": 9_000},
            "heartbeat_interval_ms=9000: must be below session_timeout_ms=9000$",
        ),
        (
            {"retry_backoff_ms": 200, "retry_backoff_max_ms": 100},
            "retry_backoff_max_ms=100: must be at least retry_backoff_ms=200",
        ),
        ({"socket_connection_setup_timeout_max_ms": 10}, "must be at least socket_connection_"),
        ({"fetch_buffer_max_bytes": 1_000_000}, "must be at least max_partition_fetch_bytes"),
    ],
)
def test_orders(options, problem):
    with pytest.raises(KafkaConfigurationError, match=problem):
        make(options)


def test_timeouts_of_a_group_are_not_compared_without_a_group():
    assert make({"session_timeout_ms": 3_000}).session_timeout_ms == 3_000


def test_a_maximum_backoff_also_limits_the_first(caplog):
    config = make({"reconnect_backoff_max_ms": 10})
    assert (config.reconnect_backoff_ms, config.reconnect_backoff_max_ms) == (10, 10)
    assert not caplog.messages
    config = make({"reconnect_backoff_max_ms": 10, "reconnect_backoff_ms": 100})
    assert (config.reconnect_backoff_ms, config.reconnect_backoff_max_ms) == (10, 10)
    assert "reconnect_backoff_max_ms=10 is below reconnect_backoff_ms=100" in caplog.text


def test_a_default_limit_is_raised_to_fit():
    config = make(
        {
            "retry_backoff_ms": 2_000,
            "reconnect_backoff_ms": 60_000,
            "socket_connection_setup_timeout_ms": 40_000,
            "max_partition_fetch_bytes": 100_000_000,
        }
    )
    assert config.retry_backoff_max_ms == 2_000
    assert config.reconnect_backoff_max_ms == 60_000
    assert config.socket_connection_setup_timeout_max_ms == 40_000
    assert config.fetch_buffer_max_bytes == 100_000_000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 100_000_000),
        ({"receive_message_max_bytes": 1_000}, 52_428_800 + 4_194_304),
        ({"fetch_max_bytes": 200_000_000}, 204_194_304),
    ],
)
def test_receive_message_max_bytes_fits_the_largest_fetch(options, expected):
    assert make(options).receive_message_max_bytes == expected


def test_eager_and_cooperative_assignors_can_be_mixed():
    make({"partition_assignment_strategy": [CooperativeStickyAssignor]})
    make({"partition_assignment_strategy": [RangePartitionAssignor, CooperativeStickyAssignor]})


@pytest.mark.behaviour(1)
@pytest.mark.parametrize(
    "name", ["session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy"]
)
def test_classic_options_are_rejected_with_the_consumer_protocol(name):
    value = {
        "session_timeout_ms": 9_000,
        "heartbeat_interval_ms": 900,
        "partition_assignment_strategy": [RangePartitionAssignor],
    }[name]
    with pytest.raises(KafkaConfigurationError, match=name):
        make({"group_protocol": "consumer", name: value})
    assert make({"group_protocol": "auto", name: value}).group_protocol == "classic"


def test_auto_logs_the_options_that_select_the_classic_protocol(caplog):
    caplog.set_level("INFO")
    options = {"heartbeat_interval_ms": 500, "session_timeout_ms": 6_000}
    make({"group_protocol": "auto", "group_id": "g", **options})
    (message,) = caplog.messages
    assert message.startswith("group g: group_protocol='auto' selects 'classic'")
    assert message.endswith("session_timeout_ms, heartbeat_interval_ms")
    caplog.clear()
    make({"group_protocol": "classic", "group_id": "g", **options})
    make({"group_protocol": "auto", "group_id": "g"})
    make({"group_protocol": "auto", **options})
    assert not caplog.messages, "there was nothing to choose"


@pytest.mark.behaviour(2)
def test_a_remote_assignor_needs_the_consumer_protocol():
    with pytest.raises(KafkaConfigurationError, match="group_remote_assignor"):
        make({"group_remote_assignor": "uniform"})
    make({"group_protocol": "consumer", "group_remote_assignor": "uniform"})


class Dealing(PartitionAssignor):
    name = "dealing"

    def assign(self, members, topics):
        return dict.fromkeys(members, topics)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "needs group_protocol='consumer'"),
        ({"group_protocol": "auto", "session_timeout_ms": 9_000}, "needs group_protocol="),
        ({"group_protocol": "consumer", "group_id": None}, "needs a group_id"),
        ({"group_protocol": "consumer", "group_remote_assignor": "range"}, "not allowed with"),
    ],
)
def test_local_assignors_need_the_consumer_protocol_and_no_remote_one(options, why):
    with pytest.raises(KafkaConfigurationError, match=f"group_local_assignors: {why}"):
        make({"group_id": "g", "group_local_assignors": [Dealing], **options})


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_local_assignors_are_classes_or_instances(protocol):
    given = [Dealing, type("Other", (Dealing,), {"name": "other"})()]
    options = {"group_id": "g", "group_protocol": protocol, "group_local_assignors": given}
    assert make(options).group_local_assignors == tuple(given)


class Tokens:
    def token(self):
        return "token"


PLAIN = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}


@pytest.mark.parametrize(
    "options",
    [
        {"security_protocol": "SASL_PLAINTEXT", **PLAIN},
        {"security_protocol": "SASL_SSL", **PLAIN, "sasl_mechanism": "SCRAM-SHA-512"},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(),
        },
        {"security_protocol": "SSL", "ssl_cafile": "ca", "ssl_check_hostname": False},
        {
            "security_protocol": "SSL",
            "ssl_certfile": "c",
            "ssl_keyfile": "k",
            "ssl_password": "p",
            "ssl_crlfile": "r",
            "ssl_ciphers": "HIGH",
        },
        {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()},
    ],
)
def test_consistent_security_options_are_accepted(options):
    config = make(options)
    assert {name: getattr(config, name) for name in options} == options


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"security_protocol": "SASL_SSL"}, "security_protocol='SASL_SSL': needs sasl_mechanism"),
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
            "'PLAIN': needs sasl_plain_username, sasl_plain_password",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_plain_username": "u",
            },
            "'SCRAM-SHA-256': needs sasl_plain_password",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "needs sasl_oauth_token_provider",
        ),
    ],
)
def test_inconsistent_security_options_are_rejected(options, problem):
    with pytest.raises(KafkaConfigurationError, match=problem):
        make(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PLAIN, "sasl_mechanism, sasl_plain_username, sasl_plain_password: no effect with"),
        ({"security_protocol": "SSL", **PLAIN}, "no effect with security_protocol='SSL'"),
        ({"ssl_cafile": "ca"}, "ssl_cafile: no effect with security_protocol='PLAINTEXT'"),
        ({"ssl_check_hostname": False}, "ssl_check_hostname: no effect with"),
        (
            {"security_protocol": "SASL_PLAINTEXT", **PLAIN, "ssl_cafile": "ca"},
            "ssl_cafile: no effect with security_protocol='SASL_PLAINTEXT'",
        ),
        (
            {
                "security_protocol": "SSL",
                "ssl_cafile": "ca",
                "ssl_context": ssl.create_default_context(),
            },
            "ssl_cafile: no effect, because ssl_context is set",
        ),
        ({"security_protocol": "SSL", "ssl_keyfile": "k"}, "no effect without ssl_certfile"),
        ({"security_protocol": "SSL", "ssl_password": "p"}, "no effect without ssl_certfile"),
    ],
)
def test_options_without_effect_are_accepted_and_logged_once(options, message, caplog):
    make(options)
    (found,) = caplog.messages
    assert message in found


def test_options_that_are_off_are_not_logged(caplog):
    make({"ssl_check_hostname": True, "sasl_plain_username": "", "sasl_mechanism": None})
    assert not caplog.messages
