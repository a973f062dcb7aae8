"""Where the constructors of kafka-python's consumer and of ours differ about a value, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

__all__ = ["OURS", "THEIRS", "Difference"]


@dataclass(frozen=True)
class Difference:
    """A reason, and the options and values to which it applies, in any combination.

    If several differences apply, the first is the reason.
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
_FRACTIONS: Final = ("`0.5`", "`60_000.5`")
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

#: Values that kafka-python's constructor accepts and ours rejects.
THEIRS: Final = (
    Difference(
        "A switch accepts True, False, 0, 1 or None. kafka-python uses the truth value of "
        "anything else: `'False'` and a function switch it on, `''` and `[]` off.",
        _SWITCHES,
        _ANYTHING,
    ),
    Difference(
        "True and False are not numbers; such a value was meant for another option. "
        "kafka-python counts them as 1 and 0.",
        _COUNTS,
        _BOOLS,
    ),
    Difference(
        "This is neither a time nor a count. kafka-python raises ValueError or struct.error in "
        "poll(), or waits forever or not at all.",
        _COUNTS,
        ("`nan`", "`-inf`"),
    ),
    Difference(
        "The protocol uses 32 bit numbers here. kafka-python raises `struct.error` in poll().",
        _ON_THE_WIRE,
        ("`2**31`", "`2**63`", "`inf`"),
    ),
    Difference(
        "The system uses 32 bit numbers here. kafka-python never uses the option.",
        _BUFFERS,
        ("`2**31`", "`2**63`", "`inf`"),
    ),
    Difference(
        "Bytes, records, requests and windows are whole numbers. kafka-python raises "
        "`struct.error` or `TypeError` in poll() if it sends the number or counts records with "
        "it. Elsewhere it accepts the fraction.",
        _COUNTS,
        _FRACTIONS,
    ),
    Difference(
        "Nothing could be read: the broker rejects the fetch, or kafka-python raises in poll(), "
        "or the member is removed from the group, or no request is ever sent.",
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
        "kafka-python's own constructor fails with KafkaTimeoutError as soon as there is a "
        "broker to connect to.",
        ("bootstrap_timeout_ms",),
        ("`-1`",),
    ),
    Difference(
        "Not a number. kafka-python raises TypeError when it first computes with it: in poll(), "
        "in its thread, or after an outage. The program should convert text to a number. If "
        "kafka-python never computes with the value (`receive_buffer_bytes`, "
        "`consumer_timeout_ms` without iteration), the mistake goes unnoticed.",
        _COUNTS,
        ("`None`", *_WORDS, *_COLLECTIONS, *_OBJECTS),
    ),
    Difference(
        "A blank name. The broker rejects it for a group (kafka-python's poll() raises "
        "InvalidGroupIdError).",
        ("group_id",),
        ("`''`", "`' '`"),
    ),
    Difference(
        "A blank name: all members with it would fence each other. Empty text is no name, as in "
        "kafka-python.",
        ("group_instance_id",),
        ("`' '`",),
    ),
    Difference(
        "A name is a str, an int or a UUID. kafka-python sends the `str()` of anything: "
        "`<object object at 0x7f...>` is a new name in every process, and `b'word'` does not "
        "become word.",
        _NAMES,
        _ANYTHING,
    ),
    Difference(
        "No server. kafka-python raises IndexError, or waits until `bootstrap_timeout_ms` has "
        "passed.",
        ("bootstrap_servers",),
        ("`''`", "`' '`", "`[]`", "`()`", "`{}`", "`['']`", "`'h:0'`", "`'h:70000'`"),
    ),
    Difference(
        "A host name contains no `/`. kafka-python tries to resolve it until "
        "`bootstrap_timeout_ms` has passed.",
        ("bootstrap_servers",),
        ("`'http://h/x'`",),
    ),
    Difference(
        "A class in place of an instance. kafka-python raises TypeError in close(), after it "
        "has called the class for every record.",
        ("key_deserializer", "value_deserializer"),
        ("a Deserializer's class",),
    ),
    Difference(
        "Not callable. kafka-python raises TypeError with the first record.",
        ("key_deserializer", "value_deserializer"),
        _ANYTHING,
    ),
    Difference(
        "Not callable. kafka-python raises TypeError when the first asynchronous commit completes.",
        ("default_offset_commit_callback",),
        _ANYTHING,
    ),
    Difference(
        'Unknown policy. kafka-python logs "Unrecognized offset_reset_strategy, using NONE", '
        "and poll() raises NoOffsetForPartitionError. A misspelled `earliest` does not mean "
        "`none`.",
        ("auto_offset_reset",),
        _ANYTHING,
    ),
    Difference(
        "Unknown protocol. With an unknown word, kafka-python connects without encryption.",
        ("security_protocol",),
        (*_ANYTHING, "`'TLS'`"),
    ),
    Difference(
        "SASL needs a mechanism and its credentials. kafka-python fails at every connection, "
        "and does not know the protocol in lower case.",
        ("security_protocol",),
        ("`'SASL_PLAINTEXT'`", "`'sasl_ssl'`"),
    ),
    Difference(
        "SASL needs a known mechanism, with user and password as text. kafka-python fails at "
        "every connection.",
        ("sasl_mechanism", *_CREDENTIALS),
        (*_ANYTHING, "`'KERBEROS'`"),
    ),
    Difference(
        "Not text, nor a path for a file. kafka-python fails at every connection, or does not "
        "use the option.",
        _SECURITY,
        _ANYTHING,
    ),
    Difference(
        "Not an `ssl.SSLContext`. kafka-python fails at every connection.",
        ("ssl_context",),
        (*_ANYTHING, "`SSLContext`"),
    ),
    Difference(
        "Not an instance with a callable `token()`. kafka-python fails at every connection with "
        "OAUTHBEARER.",
        ("sasl_oauth_token_provider",),
        (*_ANYTHING, "a provider's class"),
    ),
    Difference(
        "Not a list of (level, option, value). kafka-python fails at every connection.",
        ("socket_options",),
        (*_ANYTHING, "`[(6, 1)]`"),
    ),
    Difference(
        "A str is not a list of classes, even if it is empty.",
        ("metric_reporters",),
        ("`''`",),
    ),
    Difference(
        "Not a proxy URL with a port. kafka-python fails at every connection.",
        ("proxy_url", "socks5_proxy"),
        (*_ANYTHING, "`'socks5://h'`", "`'h:1'`"),
    ),
    Difference(
        "tandem-kafka has its own network client. Overridden methods of kafka-python's client "
        "would never be called.",
        ("kafka_client",),
        ("a subclass of it",),
    ),
)

#: Values that ours accepts and kafka-python's rejects.
OURS: Final = (
    Difference(
        "Words are accepted in upper and lower case.",
        ("client_dns_lookup",),
        ("`'USE_ALL_DNS_IPS'`",),
    ),
    Difference(
        "Times accept any number, and counts accept any integral value.",
        (*_COUNTS, "connections_max_idle_ms"),
        ("`Decimal(60_000)`",),
    ),
    Difference(
        "An assignor need not inherit from kafka-python's class: `name` and `assign()` are "
        "enough. The built-in ones may be given by name. An abstract class fails when the member "
        "joins the group.",
        ("partition_assignment_strategy",),
        ("`[AbstractPartitionAssignor]`", "`['range']`"),
    ),
    Difference(
        "Deprecated words, and lists, keep their meaning. For a release that is too old, the "
        "log has a warning, and the versions are negotiated with the broker.",
        ("api_version",),
        ("`'auto'`", "`[2, 5]`", "`(0, 1)`"),
    ),
    Difference(
        "None means no reporters. A reporter may also be an instance.",
        ("metric_reporters",),
        ("`None`", "`[Reporter()]`"),
    ),
    Difference(
        "The option is not used. It only has to be callable.",
        ("selector", "kafka_client"),
        ("`None`", "a function", "a class"),
    ),
)
