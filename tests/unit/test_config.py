"""Options: names, values, defaults."""

from __future__ import annotations

import math
import ssl
import warnings
from functools import partial

import pytest
from kafka import KafkaConsumer as TheirConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.serializer import DefaultSerializer, Deserializer

from tandem_kafka.assignors import PartitionAssignor
from tandem_kafka.config import Config, OffsetReset
from tandem_kafka.config.names import NOT_HONOURED
from tandem_kafka.errors import KafkaConfigurationError

make = Config.from_options

#: Where we keep something else than kafka-python has as its default, and what.
OTHER_DEFAULTS = {
    "bootstrap_servers": (("localhost", 9092),),
    "client_id": None,
    "consumer_timeout_ms": None,
    "default_offset_commit_callback": None,
    "enable_auto_commit": False,  # there is no group by default
    "max_partition_fetch_bytes": 4_194_304,  # reached step by step
    "reconnect_backoff_max_ms": 1_000,  # as Java's; half a minute is long after an outage
    "metric_reporters": (),
    "socket_options": tuple(TheirConsumer.DEFAULT_CONFIG["socket_options"]),
}


@pytest.mark.parametrize("name", sorted(set(TheirConsumer.DEFAULT_CONFIG) - set(NOT_HONOURED)))
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
        ("socket_connection_setup_timeout_max_ms", 30_000),
        ("metadata_recovery_strategy", "rebootstrap"),
        ("metadata_recovery_rebootstrap_trigger_ms", 300_000),
        ("fetch_buffer_max_bytes", 67_108_864),
    ],
)
def test_defaults_of_what_kafka_python_lacks(name, default):
    assert getattr(make({}), name) == default


def test_kafka_pythons_own_defaults_are_accepted():
    theirs = {
        name: value
        for name, value in TheirConsumer.DEFAULT_CONFIG.items()
        if name not in {"selector", "kafka_client"}
    }
    config = make({**theirs, "group_id": "g"})
    assert config.consumer_timeout_ms is None


def test_all_unknown_options_are_named_with_the_nearest():
    with pytest.raises(KafkaConfigurationError) as caught:
        make({"group": "g", "fetch_min_byte": 1, "xyzzy": 1, "bootstrap.servers": "x"})
    text = str(caught.value)
    assert "'fetch_min_byte' (did you mean 'fetch_min_bytes'?)" in text
    assert "'bootstrap.servers' (write it with underscores: 'bootstrap_servers')" in text
    assert "'xyzzy'" in text
    assert "'group' (did you mean 'group_id'?)" in text


@pytest.mark.parametrize("name", sorted(NOT_HONOURED))
def test_what_would_have_no_effect_is_refused(name):
    with pytest.raises(KafkaConfigurationError, match=f"{name} is not supported: "):
        make({name: object()})
    make({name: None})


def test_a_proxy():
    url = "socks5h://me:word@proxy:1080"
    assert make({"proxy_url": url}).proxy_url == url
    assert "word" not in repr(make({"proxy_url": url}))
    assert make({"proxy_url": ""}) == make({"proxy_url": None}) == make({})
    with pytest.warns(DeprecationWarning, match="socks5_proxy is called proxy_url now"):
        assert make({"socks5_proxy": url}).proxy_url == url
    assert make({"socks5_proxy": url, "proxy_url": "socks5://b:1"}).proxy_url == "socks5://b:1"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("proxy:1080", "must be 'socks5://"),
        ("http://proxy:80", "must be 'socks5://"),
        ("socks5://", "must be 'socks5://"),
        ("socks5://proxy", "names no port"),
        ("socks5://proxy:x", "Port could not be cast"),
        (5, "must be 'socks5://"),
    ],
)
def test_a_proxy_that_is_none(url, problem):
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
def test_every_group_protocol_is_taken(protocol):
    assert make({"group_protocol": protocol}).group_protocol == protocol


def test_names_of_kafka_python_2():
    with pytest.warns(DeprecationWarning, match="is called bootstrap_timeout_ms") as caught:
        assert make({"api_version_auto_timeout_ms": 5}).bootstrap_timeout_ms == 5
    # It points at the user's line, or Python would not show it.
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="legacy_iterator has no effect"):
        make({"legacy_iterator": True})
    with pytest.raises(KafkaConfigurationError, match="give one of them"):
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
        ("session_timeout_ms", math.inf, "a whole number"),
        ("check_crcs", 1, "True or False"),
        ("check_crcs", "false", "True or False"),
        ("client_rack", None, "a str"),
        ("client_id", 5, "a str or None"),
        ("isolation_level", "read", "'read_uncommitted' or 'read_committed'"),
        ("security_protocol", "ssl", "'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT' or 'SASL_SSL'"),
        ("metadata_recovery_strategy", None, "'rebootstrap' or 'none'"),
        ("group_protocol", "share", "'classic'"),
        ("receive_buffer_bytes", 0, "1 to 2147483647, or None or -1"),
        ("consumer_timeout_ms", "1", "no end"),
        ("api_version", (2,), r"a tuple such as \(2, 5\)"),
        ("api_version", (2, "x"), "a tuple such as"),
        ("default_offset_commit_callback", 5, "a callable or None"),
        ("key_deserializer", "json", "a callable of bytes"),
        ("partition_assignment_strategy", [], "a list of assignors"),
        ("partition_assignment_strategy", "range", "a list of assignors"),
        ("partition_assignment_strategy", RangePartitionAssignor, "a list of assignors"),
        ("partition_assignment_strategy", [str], "a list of assignors"),
        ("interceptor_classes", "audit", "a list of classes or objects with on_consume"),
        ("interceptor_classes", [str], "a list of classes or objects with on_consume"),
        ("group_local_assignors", "range", "a list of tandem_kafka.assignors"),
        ("group_local_assignors", RangePartitionAssignor, "a list of tandem_kafka.assignors"),
        ("group_local_assignors", [str], "a list of tandem_kafka.assignors"),
        ("group_local_assignors", [local(name="")], "a list of tandem_kafka.assignors"),
        ("sasl_mechanism", "KERBEROS", "'PLAIN', 'SCRAM-SHA-256'"),
        ("sasl_oauth_token_provider", 5, r"an object with token\(\)"),
        ("ssl_context", "context", "an ssl.SSLContext or None"),
        ("socket_options", [(1, 2)], r"a list of \(level, option, value\)"),
        ("socket_options", 1, r"a list of \(level, option, value\)"),
    ],
)
def test_errors_name_option_value_and_what_is_allowed(name, value, allowed):
    with pytest.raises(KafkaConfigurationError, match=f"must be .*{allowed}") as caught:
        make({name: value})
    shown = "<hidden>" if name == "sasl_oauth_token_provider" else repr(value)
    assert f"{name}={shown}: " in str(caught.value)


def test_whole_floats_are_numbers():
    config = make({"max_poll_interval_ms": 5 * 60 * 1e3})
    assert type(config.max_poll_interval_ms) is int


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("host", (("host", 9092),)),
        ("host:1", (("host", 1),)),
        (" a:1 , b ,", (("a", 1), ("b", 9092))),
        (["a:1", "b:2"], (("a", 1), ("b", 2))),
        (("a:1", "a:1"), (("a", 1),)),
        ("[::1]", (("::1", 9092),)),
        ("[fe80::1%eth0]:1", (("fe80::1%eth0", 1),)),
        ("[::1]:65535,10.0.0.1:1", (("::1", 65535), ("10.0.0.1", 1))),
        ("::1", (("::1", 9092),)),
    ],
)
def test_bootstrap_servers(servers, expected):
    assert make({"bootstrap_servers": servers}).bootstrap_servers == expected


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        ("", "at least one server"),
        ([], "at least one server"),
        (" , ", "at least one server"),
        ("host:", "port '' of 'host:'"),
        ("host:0", "port '0'"),
        ("host:65536", "port '65536'"),
        ("a:1,b:x", "port 'x' of 'b:x'"),
        (":9092", "':9092' is not host:port"),
        ("PLAINTEXT://host:1", "is not host:port"),
        ("[::1", r"is not \[IPv6 address\]:port"),
        ("[::1]9092", r"is not \[IPv6 address\]:port"),
        ("[host]:1", r"is not \[IPv6 address\]:port"),
        ("[::1]:", "port ''"),
        ("a:b:c", "port 'b:c'"),
        ([1], "must be 'host"),
        (None, "must be 'host"),
        ([("host", 9092)], "must be 'host"),
    ],
)
def test_bootstrap_servers_that_are_none(servers, problem):
    with pytest.raises(KafkaConfigurationError, match=problem):
        make({"bootstrap_servers": servers})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", OffsetReset("earliest")),
        ("latest", OffsetReset("latest")),
        ("none", OffsetReset("none")),
        ("by_duration:PT1H", OffsetReset("by_duration", 3_600_000)),
        ("by_duration:P1DT2H3M4.5S", OffsetReset("by_duration", 93_784_500)),
        ("by_duration:P10D", OffsetReset("by_duration", 864_000_000)),
        ("by_duration:PT0S", OffsetReset("by_duration", 0)),
        ("by_duration:pt0.001s", OffsetReset("by_duration", 1)),
        ("by_duration:PT1.0009S", OffsetReset("by_duration", 1_000)),
        ("by_duration:PT90M", OffsetReset("by_duration", 5_400_000)),
    ],
)
def test_offset_reset(text, expected):
    config = make({"auto_offset_reset": text})
    assert config.offset_reset == expected
    assert config.auto_offset_reset == text


@pytest.mark.parametrize(
    "duration",
    ["", "P", "PT", "P1DT", "1H", "PT1", "P1Y", "P1M", "P1W", "PT1H ", "PT.5S", "PT1S1M", "PTH"],
)
def test_durations_that_are_none(duration):
    with pytest.raises(KafkaConfigurationError, match=r"auto_offset_reset=.*no ISO 8601 duration"):
        make({"auto_offset_reset": f"by_duration:{duration}"})


@pytest.mark.parametrize("duration", ["-PT1H", "PT-1H", "P-1D"])
def test_negative_durations(duration):
    with pytest.raises(KafkaConfigurationError, match="is negative"):
        make({"auto_offset_reset": f"by_duration:{duration}"})


@pytest.mark.parametrize("value", ["", "by_duration", "Earliest", None, 5])
def test_offset_resets_that_are_none(value):
    with pytest.raises(KafkaConfigurationError, match="must be 'earliest', 'latest', 'none'"):
        make({"auto_offset_reset": value})


@pytest.mark.parametrize(("old", "new"), [("smallest", "earliest"), ("largest", "latest")])
def test_old_names_of_offset_resets(old, new):
    with pytest.warns(DeprecationWarning, match=f"'{old}' is the old name of '{new}'"):
        config = make({"auto_offset_reset": old})
    assert config.auto_offset_reset == config.offset_reset.kind == new


@pytest.mark.parametrize(
    ("given", "kept"), [(math.inf, None), (None, None), (-1, None), (0, 0), (250, 250), (1e3, 1000)]
)
def test_consumer_timeout(given, kept):
    assert make({"consumer_timeout_ms": given}).consumer_timeout_ms == kept


def test_api_version():
    assert make({"api_version": (2, 5)}).api_version == (2, 5)
    assert make({"api_version": [0, 10, 2]}).api_version == (0, 10, 2)
    for text, version in (("auto", None), ("2.5", (2, 5))):
        with pytest.warns(DeprecationWarning, match="give a tuple"):
            assert make({"api_version": text}).api_version == version
    with pytest.warns(DeprecationWarning, match="new"), pytest.raises(KafkaConfigurationError):
        make({"api_version": "new"})


def test_deserializers():
    for given in (None, bytes.decode, DefaultSerializer(), str):
        assert make({"value_deserializer": given}).value_deserializer is given
    with pytest.raises(KafkaConfigurationError, match=r"must be an instance: write Default"):
        make({"key_deserializer": DefaultSerializer})
    assert issubclass(DefaultSerializer, Deserializer)


def test_assignors_as_classes_and_instances():
    given = [RangePartitionAssignor(), RoundRobinPartitionAssignor]
    assert make({"partition_assignment_strategy": given}).partition_assignment_strategy == tuple(
        given
    )
    with pytest.raises(KafkaConfigurationError, match="names range more than once"):
        make({"partition_assignment_strategy": [RangePartitionAssignor, RangePartitionAssignor]})


def test_empty_texts_ask_for_nothing():
    assert make({"client_id": "", "ssl_cafile": ""}) == make({})


def test_a_ready_made_context():
    context = ssl.create_default_context()
    assert make({"security_protocol": "SSL", "ssl_context": context}).ssl_context is context


def test_nothing_warns_by_itself():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make({"group_id": "g", "auto_offset_reset": "earliest"})


def test_it_does_not_change():
    with pytest.raises(AttributeError):
        make({}).group_id = "other"


def test_repr_shows_what_was_set_and_no_secret():
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


def test_errors_show_no_secret():
    with pytest.raises(KafkaConfigurationError) as caught:
        make({"sasl_plain_password": b"s3cret"})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([local(), local()], "names local more than once"),
        ([local(version=1)], "within what it reads"),
        ([local(minimum_version=-1)], "must be whole numbers"),
        ([local(maximum_version=2**15)], "must be whole numbers"),
    ],
)
def test_local_assignors_have_names_and_versions_of_their_own(given, why):
    with pytest.raises(KafkaConfigurationError, match=f"group_local_assignors.*{why}"):
        make({"group_id": "g", "group_protocol": "consumer", "group_local_assignors": given})
