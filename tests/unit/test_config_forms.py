"""The forms in which values are taken: servers, times, numbers, words in any case."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import pytest

from tandem_kafka.config import Config, OffsetReset
from tandem_kafka.errors import KafkaConfigurationError

make = Config.from_options


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("max_poll_interval_ms", 5 * 60 * 1e3, 300_000),
        ("max_poll_records", 20.0, 20),
        ("max_poll_records", Decimal(20), 20),
        ("fetch_max_wait_ms", 0.5, 1),
        ("session_timeout_ms", 6_000.4, 6_001),
        ("session_timeout_ms", Fraction(12_001, 2), 6_001),
        ("metadata_max_age_ms", math.inf, 2**31 - 1),
        ("connections_max_idle_ms", math.inf, 2**31 - 1),
        ("bootstrap_timeout_ms", None, 2**31 - 1),
        ("bootstrap_timeout_ms", 0, 0),
        ("check_crcs", 0, False),
        ("check_crcs", 1, True),
        ("check_crcs", None, False),
        ("check_crcs", 1.0, True),
        ("receive_buffer_bytes", 0, None),
        ("receive_buffer_bytes", -1, None),
        ("client_id", 7, "7"),
        ("client_id", UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        ("group_id", 0, "0"),
        ("client_rack", None, ""),
        ("client_rack", 3, "3"),
        ("security_protocol", "Plaintext", "PLAINTEXT"),
        ("security_protocol", "ssl", "SSL"),
        ("security_protocol", None, "PLAINTEXT"),
        ("isolation_level", 1, "read_committed"),
        ("isolation_level", False, "read_uncommitted"),
        ("isolation_level", "READ-Committed", "read_committed"),
        ("group_protocol", "CONSUMER", "consumer"),
        ("socket_options", {(6, 1, 1)}, ((6, 1, 1),)),
    ],
)
def test_other_forms_of_a_value_are_converted(name, given, kept):
    found = getattr(make({name: given}), name)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("auto_commit_interval_ms", -1, 0),
        ("metadata_max_age_ms", -math.inf, 0),
        ("retry_backoff_ms", -0.5, 0),
        ("heartbeat_interval_ms", 0, 1),
        ("fetch_min_bytes", -1, 0),
        ("fetch_max_wait_ms", -1, 0),
        ("metrics_num_samples", 0, 1),
        ("auto_offset_reset", None, "none"),
    ],
)
def test_some_values_are_accepted_with_a_warning(name, given, kept, caplog):
    assert getattr(make({name: given}), name) == kept
    (said,) = caplog.messages
    assert said.startswith(f"{name}={given}") or name == "retry_backoff_ms"


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
        ("PLAINTEXT://a:1,kafka://b", (("a", 1), ("b", 9092))),
        (["sasl_ssl://[::1]:1"], (("::1", 1),)),
        (["a:1,b:2", "c"], (("a", 1), ("b", 2), ("c", 9092))),
        ({"a:1"}, (("a", 1),)),
        ({"a:1": None}, (("a", 1),)),
        ((name for name in ("a:1", "b:2")), (("a", 1), ("b", 2))),
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
        ("http://host:1", "is not host:port"),
        ("PLAINTEXT://", "is not host:port"),
        ("PLAINTEXT://host/path", "is not host:port"),
        (b"host:1", "must be 'host"),
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
def test_invalid_bootstrap_servers_are_rejected(servers, problem):
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
def test_invalid_durations_are_rejected(duration):
    with pytest.raises(
        KafkaConfigurationError, match=r"auto_offset_reset=.*not an ISO 8601 duration"
    ):
        make({"auto_offset_reset": f"by_duration:{duration}"})


@pytest.mark.parametrize("duration", ["-PT1H", "PT-1H", "P-1D"])
def test_negative_durations_are_rejected(duration):
    with pytest.raises(KafkaConfigurationError, match="is negative"):
        make({"auto_offset_reset": f"by_duration:{duration}"})


@pytest.mark.parametrize("value", ["", "by_duration", "first", 5])
def test_invalid_offset_resets_are_rejected(value):
    with pytest.raises(KafkaConfigurationError, match="must be 'earliest', 'latest', 'none'"):
        make({"auto_offset_reset": value})


@pytest.mark.parametrize("word", ["Earliest", "EARLIEST"])
def test_offset_resets_in_any_case(word):
    assert make({"auto_offset_reset": word}).auto_offset_reset == "earliest"


@pytest.mark.parametrize(
    ("old", "new"), [("smallest", "earliest"), ("largest", "latest"), ("Largest", "latest")]
)
def test_old_names_of_offset_resets(old, new):
    with pytest.warns(DeprecationWarning, match=f"'{old}' is deprecated: use '{new}'"):
        config = make({"auto_offset_reset": old})
    assert config.auto_offset_reset == config.offset_reset.kind == new


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (math.inf, None),
        (None, None),
        (-1, None),
        (0, 0),
        (250, 250),
        (1e3, 1000),
        (0.5, 1),
        (-math.inf, None),
    ],
)
def test_consumer_timeout(given, kept):
    assert make({"consumer_timeout_ms": given}).consumer_timeout_ms == kept
