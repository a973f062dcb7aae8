"""Options: names, values, defaults."""

from __future__ import annotations

import math
import selectors
import ssl
import warnings
from functools import partial
from pathlib import Path

import pytest
from kafka import KafkaConsumer as TheirConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector
from kafka.serializer import DefaultSerializer, Deserializer

from tandem_kafka.assignors import PartitionAssignor
from tandem_kafka.config import Config, default_config
from tandem_kafka.consumer.parts import named_client
from tandem_kafka.errors import InvalidOptionError, KafkaConfigurationError

make = Config.from_options

#: Defaults in our config that differ from kafka-python's, in value or form.
OTHER_DEFAULTS = {
    "bootstrap_servers": (("localhost", 9092),),
    "client_id": None,
    "consumer_timeout_ms": None,
    "default_offset_commit_callback": None,
    "enable_auto_commit": False,  # there is no group by default
    "max_partition_fetch_bytes": 4_194_304,  # reached step by step
    "reconnect_backoff_max_ms": 1_000,  # as Java's; half a minute is long after an outage
    "metric_reporters": (),
    "kafka_client": None,  # not used
    "selector": None,  # likewise
    "socket_options": tuple(TheirConsumer.DEFAULT_CONFIG["socket_options"]),
}


@pytest.mark.parametrize("name", sorted(TheirConsumer.DEFAULT_CONFIG))
def test_defaults_are_those_of_kafka_python(name):
    expected = OTHER_DEFAULTS.get(name, TheirConsumer.DEFAULT_CONFIG[name])
    assert getattr(make({}), name) == expected


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("group_protocol", "classic"),
        ("retry_backoff_max_ms", 1_000),
        ("default_api_timeout_ms", 60_000),
        ("socket_connection_setup_timeout_ms", 10_000),
        ("socket_connection_setup_timeout_max_ms", 10_000),
        ("metadata_recovery_strategy", "rebootstrap"),
        ("metadata_recovery_rebootstrap_trigger_ms", 300_000),
        ("fetch_buffer_max_bytes", 67_108_864),
    ],
)
def test_defaults_of_options_that_kafka_python_lacks(name, default):
    assert getattr(make({}), name) == default


@pytest.mark.parametrize("defaults", [TheirConsumer.DEFAULT_CONFIG, default_config()])
@pytest.mark.parametrize("more", [{}, {"group_id": "g"}, {"group_protocol": "auto"}])
def test_defaults_can_be_passed(defaults, more, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = make({**defaults, **more})
    assert not [record for record in caplog.records if record.levelname != "INFO"]
    assert config.consumer_timeout_ms is None
    assert config.default_offset_commit_callback is None
    assert config.group_protocol == more.get("group_protocol", "classic")
    assert config.enable_auto_commit is ("group_id" in more)


def test_all_unknown_options_are_named_with_the_nearest():
    with pytest.raises(KafkaConfigurationError) as caught:
        make({"group": "g", "fetch_min_byte": 1, "xyzzy": 1, "bootstrap.servers": "x"})
    text = str(caught.value)
    assert "'fetch_min_byte' (did you mean 'fetch_min_bytes'?)" in text
    assert "'bootstrap.servers' (write it with underscores: 'bootstrap_servers')" in text
    assert "'xyzzy'" in text
    assert "'group' (did you mean 'group_id'?)" in text


def test_replaceable_parts_of_kafka_python_are_accepted_without_effect(caplog):
    given = {
        "selector": selectors.DefaultSelector,
        "kafka_client": KafkaNetClient,
        "kafka_net": NetworkSelector,
    }
    make(given)
    make(dict.fromkeys(given))
    assert not caplog.records
    make({"selector": selectors.SelectSelector})
    assert "has no effect" in caplog.text
    for name in given:
        with pytest.raises(KafkaConfigurationError, match=f"{name}="):
            make({name: "module.Class"})
    with pytest.raises(KafkaConfigurationError, match=r"kafka_client=.*which is not used"):
        make({"kafka_client": type("Own", (KafkaNetClient,), {})})


def test_a_proxy():
    url = "socks5h://me:word@proxy:1080"
    assert make({"proxy_url": url}).proxy_url == url
    assert "word" not in repr(make({"proxy_url": url}))
    assert make({"proxy_url": "http://proxy:80"}).proxy_url == "http://proxy:80"
    assert make({"proxy_url": ""}) == make({"proxy_url": None}) == make({})
    with pytest.warns(DeprecationWarning, match="socks5_proxy is deprecated: use proxy_url"):
        assert make({"socks5_proxy": url}).proxy_url == url
    assert make({"socks5_proxy": url, "proxy_url": "socks5://b:1"}).proxy_url == "socks5://b:1"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("proxy:1080", "must be 'socks5://"),
        ("https://proxy:80", "must be 'socks5://"),
        ("socks5://", "must be 'socks5://"),
        ("socks5://proxy", "port is missing"),
        ("socks5://proxy:x", "the port must be a number"),
        (5, "must be 'socks5://"),
    ],
)
def test_an_invalid_proxy_is_rejected(url, problem):
    with pytest.raises(KafkaConfigurationError, match=f"proxy_url=.*{problem}"):
        make({"proxy_url": url})


def test_metric_reporters_are_classes_callables_or_instances():
    class Reporter:
        def init(self, metrics): ...
        def metric_change(self, metric): ...
        def metric_removal(self, metric): ...
        def close(self): ...

    given = [Reporter, Reporter(), partial(Reporter)]
    assert make({"metric_reporters": given}).metric_reporters == tuple(given)
    assert make({"metric_reporters": None}).metric_reporters == ()
    for wrong in ("module.Reporter", [5], 5):
        with pytest.raises(KafkaConfigurationError, match=r"a list of kafka\.metrics\.Abstract"):
            make({"metric_reporters": wrong})


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_every_group_protocol_is_accepted(protocol):
    assert make({"group_protocol": protocol}).group_protocol == protocol


def test_option_names_of_kafka_python_2():
    with pytest.warns(DeprecationWarning, match="use bootstrap_timeout_ms") as caught:
        assert make({"api_version_auto_timeout_ms": 5}).bootstrap_timeout_ms == 5
    # It points at the user's line, or Python would not show it.
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="legacy_iterator has no effect"):
        make({"legacy_iterator": True})
    with pytest.raises(KafkaConfigurationError, match="set only one of them"):
        make({"api_version_auto_timeout_ms": 5, "bootstrap_timeout_ms": 5})


def local(**attributes):
    """An assignor that a member brings along."""

    class Local(PartitionAssignor):
        name = "local"

        def assign(self, members, topics):
            return dict.fromkeys(members, topics)

    return type("Local", (Local,), attributes)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max_poll_records", 0, "a whole number of at least 1"),
        ("max_poll_records", "500", "a whole number of at least 1"),
        ("max_poll_records", True, "a whole number"),
        ("max_poll_records", 1.5, "a whole number"),
        ("max_poll_records", None, "a whole number"),
        ("fetch_max_bytes", 2**31, "from 0 to 2147483647"),
        ("session_timeout_ms", math.nan, "a number from 1"),
        ("session_timeout_ms", True, "a number from 1"),
        ("max_poll_interval_ms", -1, "a number from 1"),
        ("check_crcs", 2, "True or False"),
        ("check_crcs", "false", "True or False"),
        ("client_rack", True, "a str, an int or None"),
        ("client_id", 5.5, "a str, an int"),
        ("group_id", b"g", "a str that is not blank"),
        ("isolation_level", "read", "'read_uncommitted' or 'read_committed'"),
        ("security_protocol", "TLS", "'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL'"),
        ("metadata_recovery_strategy", None, "'rebootstrap' or 'none'"),
        ("group_protocol", "share", "'classic'"),
        ("receive_buffer_bytes", "0", "1 to 2147483647, or None, -1 or 0"),
        ("consumer_timeout_ms", "1", "no end"),
        ("api_version", (), r"a tuple such as \(2, 5\)"),
        ("api_version", (2, "x"), "a tuple such as"),
        ("default_offset_commit_callback", 5, "a callable or None"),
        ("key_deserializer", "json", "a callable that takes bytes"),
        ("isolation_level", 2, "or their numbers, 0 and 1"),
        ("partition_assignment_strategy", "range", "a list of assignors"),
        ("partition_assignment_strategy", RangePartitionAssignor, "a list of assignors"),
        ("partition_assignment_strategy", [str], "a list of assignors"),
        ("interceptor_classes", "audit", "a list of classes or objects with on_consume"),
        ("interceptor_classes", [str], "a list of classes or objects with on_consume"),
        ("group_local_assignors", "range", "a list of tandem_kafka.assignors"),
        ("group_local_assignors", RangePartitionAssignor, "a list of tandem_kafka.assignors"),
        ("group_local_assignors", [str], "a list of tandem_kafka.assignors"),
        ("group_local_assignors", [local(name="")], "a list of tandem_kafka.assignors"),
        ("socket_options", [(1, 2)], r"a list of \(level, option, value\)"),
        ("socket_options", 1, r"a list of \(level, option, value\)"),
    ],
)
def test_errors_name_the_option_the_value_and_allowed_values(name, value, allowed):
    with pytest.raises(KafkaConfigurationError, match=f"must be .*{allowed}") as caught:
        make({name: value})
    assert f"{name}={value!r}: " in str(caught.value)
    # Whichever of them kafka-python raises there.
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("sasl_mechanism", "KERBEROS", "'PLAIN', 'SCRAM-SHA-256'"),
        ("sasl_oauth_token_provider", 5, r"an object with token\(\)"),
        ("ssl_context", "context", "an ssl.SSLContext or None"),
        ("ssl_cafile", 5, "a path"),
        ("ssl_password", 5, "a str, bytes, a callable"),
        ("sasl_kerberos_service_name", 5, "a str, or None for 'kafka'"),
    ],
)
def test_errors_of_security(name, value, allowed, caplog):
    with pytest.raises(KafkaConfigurationError, match=f"{name}=.*: must be .*{allowed}"):
        make({"security_protocol": "SASL_SSL", name: value})
    # Nothing uses it, so it is not checked.
    assert make({name: value}) == make({})
    use = "'SSL' or 'SASL_SSL'" if name.startswith("ssl") else "'SASL_PLAINTEXT' or 'SASL_SSL'"
    assert caplog.messages == [f"{name}: no effect with security_protocol='PLAINTEXT'; set {use}"]


def test_api_version():
    assert make({"api_version": (2, 5)}).api_version == (2, 5)
    assert make({"api_version": [0, 10, 2]}).api_version == (0, 10, 2)
    assert make({"api_version": (2,)}).api_version == (2, 0)
    for text, version in (("auto", None), ("2.5", (2, 5))):
        with pytest.warns(DeprecationWarning, match="use a tuple"):
            assert make({"api_version": text}).api_version == version
    with pytest.warns(DeprecationWarning, match="new"), pytest.raises(KafkaConfigurationError):
        make({"api_version": "new"})


def test_an_old_api_version_warns(caplog):
    assert make({"api_version": (0, 10)}).api_version == (0, 10)
    assert "older than Kafka 0.11" in caplog.text


def test_deserializers():
    for given in (None, bytes.decode, DefaultSerializer(), str):
        assert make({"value_deserializer": given}).value_deserializer is given
    with pytest.raises(KafkaConfigurationError, match=r"must be an instance: write Default"):
        make({"key_deserializer": DefaultSerializer})
    assert issubclass(DefaultSerializer, Deserializer)


def test_assignors_by_name():
    names = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    found = make({"partition_assignment_strategy": names}).partition_assignment_strategy
    assert [each.name for each in found] == names
    with pytest.raises(InvalidOptionError, match="'rang' is none of range, roundrobin, sticky, "):
        make({"partition_assignment_strategy": ["rang"]})


def test_assignors_as_classes_and_instances():
    given = [RangePartitionAssignor(), RoundRobinPartitionAssignor]
    assert make({"partition_assignment_strategy": given}).partition_assignment_strategy == tuple(
        given
    )
    twice = [RangePartitionAssignor, RoundRobinPartitionAssignor, given[0]]
    kept = make({"partition_assignment_strategy": twice}).partition_assignment_strategy
    assert kept == tuple(given)
    for none in ([], None):
        assert make({"partition_assignment_strategy": none}).partition_assignment_strategy == ()
        with pytest.raises(KafkaConfigurationError, match="must name at least one assignor"):
            make({"partition_assignment_strategy": none, "group_id": "g"})


def test_empty_strings_count_as_not_set():
    assert make({"client_id": "", "ssl_cafile": ""}) == make({})


def test_files_and_the_password_of_a_key_in_every_form():
    options = {"security_protocol": "SSL", "ssl_certfile": Path("dir") / "cert.pem"}
    assert make(options).ssl_certfile == str(Path("dir", "cert.pem"))
    for password in ("word", b"word", lambda: "word", lambda: b"word"):
        assert make({**options, "ssl_password": password}).ssl_password == "word"


def test_mechanisms_in_any_case():
    options = {"sasl_plain_username": "u", "sasl_plain_password": "p"}
    config = make({**options, "security_protocol": "sasl_ssl", "sasl_mechanism": "scram-sha-256"})
    assert config.sasl_mechanism == "SCRAM-SHA-256"


def test_a_given_ssl_context_is_used():
    context = ssl.create_default_context()
    assert make({"security_protocol": "SSL", "ssl_context": context}).ssl_context is context


def test_defaults_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make({"group_id": "g", "auto_offset_reset": "earliest"})


def test_a_config_is_immutable():
    with pytest.raises(AttributeError):
        make({}).group_id = "other"


def test_repr_shows_the_set_options_without_secrets():
    config = make(
        {
            "group_id": "g",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "me",
            "sasl_plain_password": "s3cret",
            "ssl_certfile": "cert.pem",
            "ssl_password": "s3cret",
        }
    )
    assert "s3cret" not in repr(config)
    assert "sasl_plain_password=<hidden>" in repr(config)
    assert "group_id='g'" in repr(config)
    assert "max_poll_records" not in repr(config)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([local(), local()], "names local more than once"),
        ([local(version=1)], "between minimum_version and"),
        ([local(minimum_version=-1)], "must be whole numbers"),
        ([local(maximum_version=2**15)], "must be whole numbers"),
    ],
)
def test_invalid_local_assignors_are_rejected(given, why):
    with pytest.raises(KafkaConfigurationError, match=f"group_local_assignors.*{why}"):
        make({"group_id": "g", "group_protocol": "consumer", "group_local_assignors": given})


def test_a_generated_name_of_the_client_leaves_what_the_user_named() -> None:
    config, written = named_client(Config.from_options({"isolation_level": "read_committed"}))
    assert config.client_id == written()["client_id"]
    assert config.named == {"isolation_level": "read_committed"}
