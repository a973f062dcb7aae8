"""Where the constructors of kafka-python's consumer and of ours differ about a value, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

__all__ = ["OURS", "THEIRS", "Difference"]


@dataclass(frozen=True)
class Difference:
    """A reason, and the options and values that it is for: any of the ones with any of the others.

    Where several differences have an option and a value, the first one is its reason.
    """

    reason: str
    options: Collection[str]
    values: Collection[str]


_COLLECTIONS: Final = (
    "`[]`",
    "`['word']`",
    "`()`",
    "`(1, 2)`",
    "`{'word'}`",
    "`{}`",
    "`{'a': 1}`",
    "a generator",
)
_OBJECTS: Final = ("a function", "a class", "an object")
_WORDS: Final = ("`''`", "`' '`", "`'word'`", "`'60000'`", "`'true'`", "`'False'`", "`b'word'`")
_BOOLS: Final = ("`True`", "`False`")
_SMALL: Final = ("`0`", "`1`", "`-1`", "`7`")
_LARGE: Final = ("`60_000`", "`2**31 - 1`", "`2**31`", "`2**63`")
_FRACTIONS: Final = ("`0.5`", "`60_000.5`", "`Fraction(60_001, 2)`")
_ENDLESS: Final = ("`inf`", "`-inf`", "`nan`")
_NUMBERS: Final = (
    *_SMALL,
    *_LARGE,
    *_FRACTIONS,
    *_ENDLESS,
    "`60_000.0`",
    "`Decimal(60_000)`",
)
_ANYTHING: Final = ("`None`", *_BOOLS, *_NUMBERS, *_WORDS, *_COLLECTIONS, *_OBJECTS)

_NAMES: Final = ("client_id", "client_rack", "group_id", "group_instance_id")
_SWITCHES: Final = (
    "allow_auto_create_topics",
    "check_crcs",
    "enable_auto_commit",
    "enable_incremental_fetch_sessions",
    "exclude_internal_topics",
    "metrics_enabled",
    "ssl_check_hostname",
)
_ON_THE_WIRE: Final = (
    "fetch_max_bytes",
    "fetch_max_wait_ms",
    "fetch_min_bytes",
    "max_partition_fetch_bytes",
    "max_poll_interval_ms",
    "session_timeout_ms",
)
_LOCAL: Final = (
    "auto_commit_interval_ms",
    "bootstrap_timeout_ms",
    "consumer_timeout_ms",
    "heartbeat_interval_ms",
    "max_in_flight_requests_per_connection",
    "max_poll_records",
    "metadata_max_age_ms",
    "metrics_num_samples",
    "metrics_sample_window_ms",
    "receive_message_max_bytes",
    "reconnect_backoff_max_ms",
    "reconnect_backoff_ms",
    "retry_backoff_ms",
)
_BUFFERS: Final = ("receive_buffer_bytes", "send_buffer_bytes")
_COUNTS: Final = (*_ON_THE_WIRE, *_LOCAL, *_BUFFERS)
_TLS_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_crlfile", "ssl_keyfile")
_CREDENTIALS: Final = ("sasl_plain_password", "sasl_plain_username")
_SECURITY: Final = (
    *_TLS_FILES,
    "ssl_ciphers",
    "ssl_password",
    "sasl_kerberos_domain_name",
    "sasl_kerberos_service_name",
)

#: What kafka-python's constructor takes and ours refuses.
THEIRS: Final = (
    Difference(
        "A switch is True, False, 0, 1 or None. kafka-python takes anything else for its truth: "
        "`'False'` and a function switch on, `''` and `[]` off.",
        _SWITCHES,
        _ANYTHING,
    ),
    Difference(
        "True and False are no numbers; who writes them means another option. kafka-python counts "
        "them as 1 and 0.",
        _COUNTS,
        _BOOLS,
    ),
    Difference(
        "That is no time and no count. kafka-python raises ValueError or struct.error in poll(), "
        "or waits for ever or not at all.",
        _COUNTS,
        ("`nan`", "`-inf`"),
    ),
    Difference(
        "The protocol has 32 bit numbers there. kafka-python raises `struct.error` in poll().",
        _ON_THE_WIRE,
        ("`2**31`", "`2**63`", "`inf`"),
    ),
    Difference(
        "The system has 32 bit numbers there. kafka-python never uses the option.",
        _BUFFERS,
        ("`2**31`", "`2**63`", "`inf`"),
    ),
    Difference(
        "Bytes, records, requests and windows are counted. kafka-python raises `struct.error` or "
        "`TypeError` in poll() where the number is sent or counts records, and goes on "
        "elsewhere.",
        _COUNTS,
        _FRACTIONS,
    ),
    Difference(
        "Nothing could be read: the broker refuses the fetch, or kafka-python raises in poll(), "
        "or the member is thrown out, or no request is ever sent.",
        (
            "fetch_max_bytes",
            "max_in_flight_requests_per_connection",
            "max_partition_fetch_bytes",
            "max_poll_interval_ms",
            "max_poll_records",
        ),
        ("`-1`", "`0`"),
    ),
    Difference(
        "kafka-python's own constructor fails with KafkaTimeoutError as soon as there is a broker "
        "to ask.",
        ("bootstrap_timeout_ms",),
        ("`-1`",),
    ),
    Difference(
        "Not a number. kafka-python raises TypeError when it first computes with it, in poll(), in "
        "its thread or after an outage; a number in a text is for the program to convert. Where it "
        "never computes with it (`receive_buffer_bytes`, `consumer_timeout_ms` without iteration) "
        "the mistake goes unnoticed.",
        _COUNTS,
        ("`None`", *_WORDS, *_COLLECTIONS, *_OBJECTS),
    ),
    Difference(
        "A blank name. The broker refuses it for a group (kafka-python's poll() raises "
        "InvalidGroupIdError); as `group_instance_id` all members that are given it would fence "
        "one another.",
        ("group_id", "group_instance_id"),
        ("`''`", "`' '`"),
    ),
    Difference(
        "A name is a text, an int or a UUID. kafka-python sends the `str()` of anything: "
        "\"<object object at 0x7f...>\" is a new name in every process, and `b'word'` is not word.",
        _NAMES,
        _ANYTHING,
    ),
    Difference(
        "No server: kafka-python raises IndexError or waits until `bootstrap_timeout_ms` is over.",
        ("bootstrap_servers",),
        ("`''`", "`' '`", "`[]`", "`()`", "`{}`", "`['']`", "`'h:0'`", "`'h:70000'`"),
    ),
    Difference(
        "No host has a `/` in its name; kafka-python looks it up until `bootstrap_timeout_ms` is "
        "over.",
        ("bootstrap_servers",),
        ("`'http://h/x'`",),
    ),
    Difference(
        "A class in place of an instance of it: kafka-python raises TypeError in close(), after "
        "it has called the class for every record.",
        ("key_deserializer", "value_deserializer"),
        ("a Deserializer's class",),
    ),
    Difference(
        "Nothing that could be called with bytes: kafka-python raises TypeError with the first "
        "record.",
        ("key_deserializer", "value_deserializer"),
        _ANYTHING,
    ),
    Difference(
        "Not callable: kafka-python raises TypeError when the first asynchronous commit ends.",
        ("default_offset_commit_callback",),
        _ANYTHING,
    ),
    Difference(
        'No known policy. kafka-python logs "Unrecognized offset_reset_strategy, using NONE", and '
        "poll() raises NoOffsetForPartitionError; a misspelt `earliest` is not `none`.",
        ("auto_offset_reset",),
        _ANYTHING,
    ),
    Difference(
        "No protocol. kafka-python connects without encryption whatever word it does not know.",
        ("security_protocol",),
        (*_ANYTHING, "`'TLS'`"),
    ),
    Difference(
        "SASL needs a mechanism and what it logs in with; kafka-python fails at every connection, "
        "and takes no notice of the word in small letters.",
        ("security_protocol",),
        ("`'SASL_PLAINTEXT'`", "`'sasl_ssl'`"),
    ),
    Difference(
        "SASL needs a mechanism that there is, with its user and password as texts; kafka-python "
        "fails at every connection.",
        ("sasl_mechanism", *_CREDENTIALS),
        (*_ANYTHING, "`'KERBEROS'`"),
    ),
    Difference(
        "Not a text, nor a path where a file is meant: kafka-python fails at every connection, or "
        "does not use the option.",
        _SECURITY,
        _ANYTHING,
    ),
    Difference(
        "Not an `ssl.SSLContext`: kafka-python fails at every connection.",
        ("ssl_context",),
        (*_ANYTHING, "`SSLContext`"),
    ),
    Difference(
        "Not an instance with a `token()` that can be called: kafka-python fails at every "
        "connection with OAUTHBEARER.",
        ("sasl_oauth_token_provider",),
        (*_ANYTHING, "a provider's class"),
    ),
    Difference(
        "Not a list of (level, option, value): kafka-python fails at every connection.",
        ("socket_options",),
        (*_ANYTHING, "`[(6, 1)]`"),
    ),
    Difference(
        "A text is no list of classes, not even an empty one.",
        ("metric_reporters",),
        ("`''`",),
    ),
    Difference(
        "No proxy with a port: kafka-python fails at every connection.",
        ("proxy_url", "socks5_proxy"),
        (*_ANYTHING, "`'socks5://h'`", "`'h:1'`"),
    ),
    Difference(
        "The network client is our own, and a client that overrides something of kafka-python's "
        "would never be called.",
        ("kafka_client",),
        ("a subclass of it",),
    ),
)

#: What ours takes and kafka-python's refuses.
OURS: Final = (
    Difference("Words are taken in any case.", ("client_dns_lookup",), ("`'USE_ALL_DNS_IPS'`",)),
    Difference(
        "Any number is taken for a time, and a whole one of any type for a count.",
        (*_COUNTS, "connections_max_idle_ms"),
        ("`Decimal(60_000)`",),
    ),
    Difference(
        "An assignor need not be derived from kafka-python's class, so ours asks for `name` and "
        "`assign()` only; an abstract class fails when the group is joined.",
        ("partition_assignment_strategy",),
        ("`[AbstractPartitionAssignor]`",),
    ),
    Difference(
        "Deprecated words and lists stand for what they say; a release that is too old is told to "
        "the log, and versions are agreed on with the broker.",
        ("api_version",),
        ("`'auto'`", "`[2, 5]`", "`(0, 1)`"),
    ),
    Difference(
        "None is none; a reporter may be an instance already.",
        ("metric_reporters",),
        ("`None`", "`[Reporter()]`"),
    ),
    Difference(
        "The option is not used, so nothing is asked of it but that it could be called.",
        ("selector", "kafka_client"),
        ("`None`", "a function", "a class"),
    ),
)
