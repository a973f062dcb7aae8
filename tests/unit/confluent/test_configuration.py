"""From librdkafka's properties to our options."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

from tandem_kafka.assignors import CooperativeStickyAssignor, RangePartitionAssignor
from tandem_kafka.config import Config
from tandem_kafka.config.librdkafka import IGNORED, PROPERTIES, REJECTED
from tandem_kafka.confluent import Consumer, KafkaError, KafkaException
from tandem_kafka.confluent import configuration as configured
from tandem_kafka.confluent.configuration import merged, settings_from
from tests.unit.network.certificates import issue

GROUP = {"group.id": "g"}

#: A value that librdkafka takes, where it does not take "1".
_VALUES = {
    "session.timeout.ms": "6000",
    "max.poll.interval.ms": "300000",
    "partition.assignment.strategy": "range",
    "fetch.max.bytes": "52428800",
    "receive.message.max.bytes": "100000000",
    "socket.timeout.ms": "30000",
    "socket.connection.setup.timeout.ms": "1000",
    "security.protocol": "plaintext",
    "bootstrap.servers": "localhost:1",
    "metadata.broker.list": "localhost:1",
}


def options_of(**more: Any) -> dict[str, Any]:
    config = {**GROUP, **{name.replace("_", "."): value for name, value in more.items()}}
    return settings_from(config).options


def rejection(config: dict[str, Any]) -> str:
    with pytest.raises(KafkaException) as raised:
        settings_from({**GROUP, **config})
    error = raised.value.args[0]
    assert error.code() == KafkaError._INVALID_ARG
    text: str = error.str()
    return text


def value_for(name: str) -> str:
    words = PROPERTIES[name].words
    if name in _VALUES or not words:
        return _VALUES.get(name, "1")
    return next(iter(words))


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_every_supported_property_makes_a_configuration(name: str) -> None:
    if PROPERTIES[name].option is None or name.startswith(("ssl.", "sasl.")):
        pytest.skip("needs others beside it; has a test of its own")
    options = settings_from({**GROUP, name: value_for(name)}).options
    Config.from_options(options)


@pytest.mark.parametrize("name", sorted([*PROPERTIES, *IGNORED, *REJECTED]))
def test_librdkafka_accepts_every_name(name: str) -> None:
    if name.endswith(("_cb", "opaque")) or "callback" in name:
        return  # set by functions of its own there
    said = ""
    try:
        confluent_kafka.Consumer({**GROUP, name: value_for(name) if name in PROPERTIES else "1"})
    except confluent_kafka.KafkaException as error:
        said = str(error)
    assert "No such configuration property" not in said


def test_librdkafkas_defaults_hold() -> None:
    options = options_of()
    config = Config.from_options(options)
    assert config.isolation_level == "read_committed"
    assert config.allow_auto_create_topics is False
    assert config.session_timeout_ms == 45_000
    assert config.auto_offset_reset == "latest"
    assert config.client_id == "rdkafka"
    assert config.enable_auto_commit is False  # the facade commits returned messages


def test_numbers_flags_and_strings_are_parsed_as_by_librdkafka() -> None:
    options = options_of(
        session_timeout_ms="6000",
        fetch_wait_max_ms="0x10",
        fetch_min_bytes=1.5,
        allow_auto_create_topics="True",
        auto_offset_reset="SMALLEST",
        check_crcs=0,
    )
    assert options["session_timeout_ms"] == 6000
    assert options["fetch_max_wait_ms"] == 16
    assert options["fetch_min_bytes"] == 1
    assert options["allow_auto_create_topics"] is True
    assert options["auto_offset_reset"] == "earliest"
    assert options["check_crcs"] is False


def test_an_unknown_name_is_rejected_with_the_message_of_librdkafka() -> None:
    assert rejection({"x": 1}) == 'No such configuration property: "x"'


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"session.timeout.ms": "abc"}, "Invalid value for configuration property"),
        ({"session.timeout.ms": None}, "cannot be set to empty value"),
        ({"session.timeout.ms": -5}, "is outside allowed range 1..3600000"),
        ({"enable.auto.commit": 2}, 'Expected bool value for "enable.auto.commit"'),
        ({"auto.offset.reset": "foo"}, 'Invalid value "foo"'),
        ({"isolation.level": 1}, 'Invalid value "1"'),
        ({"partition.assignment.strategy": "foo"}, "Unsupported partition.assignment.strategy"),
        ({"partition.assignment.strategy": "range,cooperative-sticky"}, "must not mix"),
        ({"max.poll.interval.ms": 1000}, "must be >= `session.timeout.ms`"),
        ({"group.protocol": "consumer", "session.timeout.ms": 6000}, "is not supported"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, "must be set"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, "oauth_cb"),
        ({"ssl.keystore.location": "x"}, "is not supported: convert it"),
        ({"on_commit": 5}, "requires a callable"),
    ],
)
def test_invalid_values_are_rejected(config: dict[str, Any], text: str) -> None:
    assert text in rejection(config)


def test_a_group_and_a_dict_are_required() -> None:
    with pytest.raises(ValueError, match=r"group\.id must be set"):
        Consumer({})
    with pytest.raises(TypeError, match="expected configuration dict"):
        Consumer("x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected configuration dict"):
        Consumer()
    with pytest.raises(TypeError, match="stats_cb"):
        Consumer({**GROUP, "stats_cb": 5})


def test_an_option_that_our_consumer_rejects_raises_kafka_exception() -> None:
    config = {**GROUP, "security.protocol": "ssl", "ssl.ca.location": "/there/is/none"}
    with pytest.raises(KafkaException, match=r"Failed to create consumer: .*ssl_cafile"):
        Consumer(config)


def test_a_name_without_effect_warns_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configured, "_warned", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            settings_from({**GROUP, "queued.min.messages": 5})
    assert caplog.messages == ["the property queued.min.messages has no effect here"]


def test_topic_configuration_and_keywords_are_used() -> None:
    config = {**GROUP, "default.topic.config": {"auto.offset.reset": "beginning"}}
    settings = settings_from(merged(config, {"client.id": "me"}))
    assert settings.options["auto_offset_reset"] == "earliest"
    assert settings.options["client_id"] == "me"


def test_keywords_alone_are_a_configuration() -> None:
    with Consumer(**GROUP) as consumer:
        assert consumer.assignment() == []
    with pytest.raises(KafkaException, match="foo"):
        Consumer(**GROUP, foo="1")


def test_assignors_are_selected_by_name() -> None:
    one = options_of(partition_assignment_strategy="cooperative-sticky")
    assert one["partition_assignment_strategy"] == [CooperativeStickyAssignor]
    two = options_of(partition_assignment_strategy="range,roundrobin")
    assert two["partition_assignment_strategy"][0] is RangePartitionAssignor


def test_values_are_converted_to_our_units() -> None:
    options = options_of(
        queued_max_messages_kbytes=64,
        connections_max_idle_ms=0,
        topic_metadata_refresh_interval_ms=-1,
        socket_receive_buffer_bytes=0,
        session_timeout_ms=1000,
    )
    assert options["fetch_buffer_max_bytes"] == 65_536
    assert options["connections_max_idle_ms"] == options["metadata_max_age_ms"] == 2**31 - 1
    assert options["receive_buffer_bytes"] is None
    assert options["heartbeat_interval_ms"] == 333


def test_verification_of_certificates_can_be_disabled() -> None:
    config = {
        **GROUP,
        "security.protocol": "ssl",
        "enable.ssl.certificate.verification": "false",
        "ssl.endpoint.identification.algorithm": "none",
    }
    context = settings_from(config).options["ssl_context"]
    assert context.verify_mode == ssl.CERT_NONE
    assert not context.check_hostname


@pytest.mark.parametrize(
    "more",
    [
        {"ssl.cipher.suites": "nonsense"},
        {"ssl.key.location": "key.pem"},
        {"ssl.certificate.location": "cert.pem", "ssl.key.location": "key.pem"},
        {"ssl.ca.location": "missing.pem"},
    ],
)
def test_what_a_context_cannot_use_is_an_invalid_argument(
    more: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL would ask on the terminal for the password of the key."""
    monkeypatch.chdir(tmp_path)
    client = issue("client")
    Path("cert.pem").write_bytes(client.pem)
    Path("key.pem").write_bytes(client.key_pem(BestAvailableEncryption(b"secret")))
    unverified = {"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}
    for verified in ({"security.protocol": "ssl"}, unverified):
        with pytest.raises(KafkaException) as caught:
            Consumer({**GROUP, **verified, **more})
        assert caught.value.args[0].code() == KafkaError._INVALID_ARG


def test_authorities_may_be_in_a_folder(tmp_path: Path) -> None:
    config = {**GROUP, "security.protocol": "ssl", "ssl.ca.location": str(tmp_path)}
    assert settings_from(config).options["ssl_context"].verify_mode == ssl.CERT_REQUIRED
    Consumer({**OIDC, "https.ca.location": str(tmp_path)}).close()


def test_a_token_of_a_metadata_service_is_rejected() -> None:
    kind = "sasl.oauthbearer.metadata.authentication.type"
    assert "azure_imds is not supported" in rejection({**OIDC, kind: "azure_imds"})
    settings_from({**OIDC, kind: "none"})


def test_verification_of_host_names_can_be_disabled() -> None:
    config = {
        **GROUP,
        "security.protocol": "ssl",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert settings_from(config).options["ssl_check_hostname"] is False


def test_a_user_and_a_password_are_converted() -> None:
    config = {
        **GROUP,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    options = settings_from(config).options
    Config.from_options(options)
    assert options["security_protocol"] == "SASL_PLAINTEXT"
    assert options["sasl_mechanism"] == "SCRAM-SHA-256"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("u", "p")


def test_oauth_cb_provides_tokens() -> None:
    configs: list[str] = []

    def token(config: str) -> tuple[str, float, str, dict[str, str]]:
        configs.append(config)
        return "token", 1e12, "me", {"a": "b"}

    config = {
        **GROUP,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "some=thing",
        "oauth_cb": token,
    }
    options = settings_from(config).options
    Config.from_options(options)
    provider = options["sasl_oauth_token_provider"]
    assert (provider.token(), provider.extensions()) == ("token", {"a": "b"})
    assert configs == ["some=thing"]


OIDC = {
    **GROUP,
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "OIDC",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
    "sasl.oauthbearer.client.id": "reader",
    "sasl.oauthbearer.client.secret": "word",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=a,pool=b",
    "https.ca.location": "probe",
}


def test_the_consumer_asks_a_token_endpoint() -> None:
    config = Config.from_options(settings_from(OIDC).options)
    assert config.sasl_oauth_token_provider is None
    assert config.sasl_oauthbearer_token_endpoint_url == "https://login.example.com/token"
    assert config.sasl_oauthbearer_client_id == "reader"
    assert config.sasl_oauthbearer_client_secret == "word"
    assert config.sasl_oauthbearer_scope == "kafka"
    assert config.sasl_oauthbearer_extensions == {"logicalCluster": "a", "pool": "b"}
    assert config.sasl_oauthbearer_cafile is None


def test_assertions_take_the_place_of_a_secret() -> None:
    given = {name: value for name, value in OIDC.items() if "client" not in name}
    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    prefix = "sasl.oauthbearer.assertion"
    more = {
        "sasl.oauthbearer.grant.type": grant,
        f"{prefix}.private.key.file": __file__,
        f"{prefix}.algorithm": "es256",
        f"{prefix}.claim.iss": "reader",
        f"{prefix}.claim.sub": "reader",
        f"{prefix}.claim.aud": "https://login.example.com",
        f"{prefix}.claim.exp.seconds": "60",
    }
    config = Config.from_options(settings_from({**given, **more}).options)
    assert config.sasl_oauthbearer_grant_type == grant
    assert config.sasl_oauthbearer_assertion_private_key_file == __file__
    assert config.sasl_oauthbearer_assertion_algorithm == "ES256"
    assert config.sasl_oauthbearer_assertion_claim_exp_seconds == 60


def test_other_names_and_empty_values_of_a_token_endpoint() -> None:
    config = {
        **{name: value for name, value in OIDC.items() if "client" not in name},
        "sasl.oauthbearer.client.credentials.client.id": "other",
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
        "sasl.oauthbearer.scope": "",
        "https.ca.location": "ca.pem",
    }
    options = settings_from(config).options
    assert options["sasl_oauthbearer_client_id"] == "other"
    assert options["sasl_oauthbearer_client_secret"] == "secret"
    assert options["sasl_oauthbearer_cafile"] == "ca.pem"
    assert "sasl_oauthbearer_scope" not in options
    assert "ssl_cafile" not in options


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.oauthbearer.method": "default", "oauth_cb": print},
        {"sasl.oauthbearer.method": "oidc", "oauth_cb": print},
        {"sasl.oauthbearer.method": "default", "security.protocol": "ssl"},
    ],
)
def test_a_callback_comes_before_a_token_endpoint(more: dict[str, Any]) -> None:
    config = {**OIDC, **more}
    options = settings_from(config).options
    Config.from_options(options)
    assert ("sasl_oauth_token_provider" in options) == ("oauth_cb" in more)
    assert not [name for name in options if name.startswith("sasl_oauthbearer_")]


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.oauthbearer.token.endpoint.url": ""},
        {"sasl.oauthbearer.client.secret": ""},
        {"sasl.oauthbearer.token.endpoint.url": "http://login.example.com/token"},
    ],
)
def test_an_incomplete_token_endpoint_is_rejected(more: dict[str, Any]) -> None:
    with pytest.raises(KafkaException, match="Failed to create consumer"):
        Consumer({**OIDC, **more})


def test_callbacks_without_effect_warn(caplog: pytest.LogCaptureFixture) -> None:
    configured._warned.clear()
    given = {"group.id": "g", "throttle_cb": print, "log_cb": print, "logger": None}
    settings_from(given)
    settings_from(given)
    warned = [record.message for record in caplog.records]
    assert [text.split()[2] for text in warned] == ["throttle_cb", "log_cb"], "once each"
