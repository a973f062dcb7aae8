"""The cluster embedded in librdkafka, with settings that confluent-kafka has no option for.

The functions are in librdkafka's public header rdkafka_mock.h. The extension module of
confluent-kafka is linked with the library and exports them.
"""

from __future__ import annotations

import ctypes
from typing import Final

from confluent_kafka import cimpl

_PRODUCER: Final = 0
#: Keys and highest versions of classic group requests: the embedded cluster offers newer versions,
#: but reads them as if they were these.
_VERSIONS: Final = {"JoinGroup": (11, 5), "Heartbeat": (12, 3), "Leave": (13, 2), "Sync": (14, 3)}

_library = ctypes.CDLL(cimpl.__file__)
_POINTER, _INT, _STRING = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_int16: Final = ctypes.c_int16
for _name, _result, _arguments in (
    ("rd_kafka_conf_new", _POINTER, ()),
    ("rd_kafka_conf_set", _INT, (_POINTER, _STRING, _STRING, _STRING, ctypes.c_size_t)),
    ("rd_kafka_new", _POINTER, (_INT, _POINTER, _STRING, ctypes.c_size_t)),
    ("rd_kafka_destroy", None, (_POINTER,)),
    ("rd_kafka_mock_cluster_new", _POINTER, (_POINTER, _INT)),
    ("rd_kafka_mock_cluster_destroy", None, (_POINTER,)),
    ("rd_kafka_mock_cluster_bootstraps", _STRING, (_POINTER,)),
    ("rd_kafka_mock_topic_create", _INT, (_POINTER, _STRING, _INT, _INT)),
    ("rd_kafka_mock_set_apiversion", _INT, (_POINTER, _int16, _int16, _int16)),
    ("rd_kafka_mock_group_initial_rebalance_delay_ms", None, (_POINTER, ctypes.c_int32)),
):
    _function = getattr(_library, _name)
    _function.restype, _function.argtypes = _result, _arguments


class MockCluster:
    """A cluster in this process: threads and sockets of librdkafka, until `close`.

    Attributes:
        bootstrap: Addresses of its brokers.
    """

    def __init__(self, brokers: int, *, initial_rebalance_delay_ms: int) -> None:
        error = ctypes.create_string_buffer(512)
        options = _library.rd_kafka_conf_new()
        _library.rd_kafka_conf_set(options, b"log_level", b"0", error, len(error))
        owner = _library.rd_kafka_new(_PRODUCER, options, error, len(error))
        self._owner = owner
        self._cluster = _library.rd_kafka_mock_cluster_new(owner, brokers) if owner else None
        if not self._cluster:
            raise RuntimeError(f"no embedded cluster: {error.value.decode()}")
        for number, highest in _VERSIONS.values():
            _library.rd_kafka_mock_set_apiversion(self._cluster, number, 0, highest)
        _library.rd_kafka_mock_group_initial_rebalance_delay_ms(
            self._cluster, initial_rebalance_delay_ms
        )
        bootstrap: bytes = _library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        self.bootstrap = bootstrap.decode()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic whose partitions have one replica each."""
        error = _library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        if error:
            raise RuntimeError(f"topic {name} was not created: error {error}")

    def close(self) -> None:
        """Stop the brokers and close their sockets; a second call has no effect."""
        cluster, self._cluster = self._cluster, None
        if cluster:
            _library.rd_kafka_mock_cluster_destroy(cluster)
            _library.rd_kafka_destroy(self._owner)
