"""Values of every kind for options, valid or not."""

from __future__ import annotations

import math
import selectors
import ssl
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.metrics.metrics_reporter import AbstractMetricsReporter
from kafka.net.compat import KafkaNetClient
from kafka.serializer import DefaultSerializer

__all__ = ["GENERAL", "SURROUNDINGS", "values_of"]


class Thing:
    def __repr__(self) -> str:
        return "Thing()"


class Tokens:
    def token(self) -> str:
        return "token"

    def __repr__(self) -> str:
        return "Tokens()"


class Reporter(AbstractMetricsReporter):
    def init(self, metrics: Any) -> None: ...
    def metric_change(self, metric: Any) -> None: ...
    def metric_removal(self, metric: Any) -> None: ...
    def configure(self, configs: Any) -> None: ...
    def close(self) -> None: ...


def function(*_args: Any) -> None:
    return None


#: Factories of values, by their text in the table; a generator can be read only once.
GENERAL: Final[dict[str, Callable[[], Any]]] = {
    "`None`": lambda: None,
    "`True`": lambda: True,
    "`False`": lambda: False,
    "`0`": lambda: 0,
    "`1`": lambda: 1,
    "`-1`": lambda: -1,
    "`7`": lambda: 7,
    "`60_000`": lambda: 60_000,
    "`2**31 - 1`": lambda: 2**31 - 1,
    "`2**31`": lambda: 2**31,
    "`2**63`": lambda: 2**63,
    "`0.5`": lambda: 0.5,
    "`60_000.0`": lambda: 60_000.0,
    "`60_000.5`": lambda: 60_000.5,
    "`inf`": lambda: math.inf,
    "`-inf`": lambda: -math.inf,
    "`nan`": lambda: math.nan,
    "`Decimal(60_000)`": lambda: Decimal(60_000),
    "`''`": lambda: "",
    "`' '`": lambda: " ",
    "`'word'`": lambda: "word",
    "`'60000'`": lambda: "60000",
    "`'true'`": lambda: "true",
    "`'False'`": lambda: "False",
    "`b'word'`": lambda: b"word",
    "`[]`": list,
    "`['word']`": lambda: ["word"],
    "`()`": lambda: (),
    "`(1, 2)`": lambda: (1, 2),
    "`{'word'}`": lambda: {"word"},
    "`{}`": dict,
    "`{'a': 1}`": lambda: {"a": 1},
    "a generator": lambda: (word for word in ("word",)),
    "a function": lambda: function,
    "a class": lambda: Thing,
    "an object": Thing,
}


def _listed(values: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    return {name: (lambda value=value: value) for name, value in values.items()}


def _words(*words: str) -> dict[str, Callable[[], Any]]:
    return _listed({f"`{word!r}`": word for word in words})


#: More of them for single options: those that they are for, and near misses.
_OF_OPTION: Final[dict[str, dict[str, Callable[[], Any]]]] = {
    "bootstrap_servers": {
        **_words(
            "h:1,i:2",
            " h:1 , i:2 ",
            "h:1,",
            "PLAINTEXT://h:1",
            "kafka://h:1,kafka://i:2",
            "SASL_SSL://h:1",
            "[::1]:1",
            "::1",
            "h:0",
            "h:70000",
            "h:x",
            "http://h/x",
        ),
        **_listed({"`['h:1', 'i:2']`": ["h:1", "i:2"], "`('h:1', 'h:1')`": ("h:1", "h:1")}),
        **_listed(
            {"`{'h:1', 'i:2'}`": {"h:1", "i:2"}, "`['PLAINTEXT://h:1']`": ["PLAINTEXT://h:1"]}
        ),
        **_listed({"`['h:1,i:2']`": ["h:1,i:2"], "`[('h', 1)]`": [("h", 1)]}),
        **_listed({"`['']`": [""], "`{'h:1': 1}`": {"h:1": 1}}),
        "a generator of servers": lambda: (each for each in ("h:1", "i:2")),
    },
    "auto_offset_reset": _words("earliest", "Earliest", "LATEST", "NONE", "smallest", "Smallest"),
    "isolation_level": _words(
        "read_committed", "READ_COMMITTED", "read-committed", " Read_Uncommitted "
    ),
    "security_protocol": _words("SSL", "ssl", "SASL_PLAINTEXT", "sasl_ssl", "Plaintext", "TLS"),
    "client_dns_lookup": _words("resolve_canonical_bootstrap_servers_only", "USE_ALL_DNS_IPS"),
    "sasl_mechanism": _words("PLAIN", "plain", "SCRAM-SHA-512", "GSSAPI", "KERBEROS"),
    "sasl_oauth_token_provider": {"a provider": Tokens, "a provider's class": lambda: Tokens},
    "api_version": {
        **_words("auto", "2.5", "2.5.1", "new"),
        **_listed({f"`{v!r}`": v for v in ((4, 0), (2, 5), (0, 11), (0, 10), (0, 9), (0, 8, 2))}),
        **_listed(
            {f"`{v!r}`": v for v in ((9, 9), (2,), (0, 1), [2, 5], (2, "5"), (2, 5, 1), 2.5)}
        ),
    },
    "partition_assignment_strategy": {
        "`[Range]`": lambda: [RangePartitionAssignor],
        "`(Range(),)`": lambda: (RangePartitionAssignor(),),
        "`[Range, Range]`": lambda: [RangePartitionAssignor, RangePartitionAssignor],
        "`[Range, Sticky]`": lambda: [RangePartitionAssignor, StickyPartitionAssignor],
        "`{Range}`": lambda: {RangePartitionAssignor},
        "`Range`": lambda: RangePartitionAssignor,
        "`[AbstractPartitionAssignor]`": lambda: [AbstractPartitionAssignor],
        "`['range']`": lambda: ["range"],
        "a generator of assignors": lambda: (each for each in (RangePartitionAssignor,)),
    },
    "metric_reporters": {
        "`[Reporter]`": lambda: [Reporter],
        "`(Reporter,)`": lambda: (Reporter,),
        "`[Reporter()]`": lambda: [Reporter()],
        "`Reporter`": lambda: Reporter,
    },
    "value_deserializer": {
        "`str`": lambda: str,
        "a Deserializer": DefaultSerializer,
        "a Deserializer's class": lambda: DefaultSerializer,
    },
    "socket_options": _listed(
        {
            "`[(6, 1, 1)]`": [(6, 1, 1)],
            "`((6, 1, 1),)`": ((6, 1, 1),),
            "`[[6, 1, 1]]`": [[6, 1, 1]],
            "`{(6, 1, 1)}`": {(6, 1, 1)},
            "`[(6, 1)]`": [(6, 1)],
            "`[(6, 1, b'1')]`": [(6, 1, b"1")],
        }
    ),
    "ssl_context": {
        "a context": ssl.create_default_context,
        "`SSLContext`": lambda: ssl.SSLContext,
    },
    "proxy_url": _words(
        "socks5://h:1", "SOCKS5://h:1", "socks5h://u:p@h:1", "socks5://h", "http://h:1", "h:1"
    ),
    "socks5_proxy": _words("socks5://h:1", "h:1"),
    "selector": {
        "`SelectSelector`": lambda: selectors.SelectSelector,
        "`DefaultSelector()`": selectors.DefaultSelector,
    },
    "kafka_client": {
        "`KafkaNetClient`": lambda: KafkaNetClient,
        "a subclass of it": lambda: type("OwnClient", (KafkaNetClient,), {}),
    },
    "group_instance_id": _words("a b", ".", "..", "ä", "x.y_z-1"),
    "group_id": _words("a b", "ä"),
}
_OF_OPTION["key_deserializer"] = _OF_OPTION["value_deserializer"]


def values_of(option: str) -> dict[str, Callable[[], Any]]:
    """Return the tested values of an option, by their text in the table."""
    return {**GENERAL, **_OF_OPTION.get(option, {})}


#: Options without which values of options with these prefixes are not checked.
SURROUNDINGS: Final[dict[str, dict[str, Any]]] = {
    "ssl_": {"security_protocol": "SSL"},
    "sasl_": {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "user",
        "sasl_plain_password": "word",
    },
}
