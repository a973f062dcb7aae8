"""Responses with corrupted bytes cause an error of their request, and nothing else."""

from __future__ import annotations

import re
import resource
import struct
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_kafka.errors import KafkaConnectionError, KafkaError, KafkaProtocolError
from tandem_kafka.network.authentication import SaslExchange
from tandem_kafka.network.connection import ConnectionState
from tandem_kafka.network.offloading import Offloading
from tandem_kafka.network.request import ANY_NODE, ClientResponse, UnsentRequest
from tandem_kafka.network.response import parse_header
from tandem_kafka.records import decode_fetch_response
from tandem_kafka.wire import messages
from tandem_kafka.wire.framing import decode_message, encode_message, response_class
from tandem_kafka.wire.responses import reject_nulls
from tests.tier import examples
from tests.unit.network.scripted import (
    NODE_1,
    RecordedConnection,
    ScriptedDriver,
    Settings,
    api_versions,
)

NOTHING_OFFLOADED = Offloading(ScriptedDriver(), lambda: None)

#: By the common name of request and response.
KINDS = {
    name.removesuffix("Request"): (
        getattr(messages, name),
        getattr(messages, f"{name[:-7]}Response"),
    )
    for name in dir(messages)
    if name.endswith("Request")
}
#: Decoded by this package instead of kafka-python.
DECODERS = {"Fetch": decode_fetch_response}
#: Responses of older versions are never decoded.
OLDEST = {"Fetch": 4}
SASL = Settings(sasl_mechanism="PLAIN", sasl_plain_username="alice", sasl_plain_password="secret")

#: Huge lengths: int32, int16 and unsigned varints, one of them without an end.
BIG = [
    struct.pack(">i", 2**31 - 1),
    struct.pack(">h", 2**15 - 1),
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 12,
]
#: Kind, position and new bytes.
Change = tuple[str, int, bytes]
changes = st.lists(
    st.one_of(
        st.tuples(
            st.just("flip"), st.integers(0), st.sampled_from([bytes([1 << n]) for n in range(8)])
        ),
        st.tuples(st.just("set"), st.integers(0), st.sampled_from(BIG)),
        st.tuples(st.just("set"), st.integers(0), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("insert"), st.integers(0), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("cut"), st.integers(0), st.just(b"")),
    ),
    min_size=1,
    max_size=4,
)


def mutate(data: bytes, wanted: list[Change]) -> bytes:
    for kind, where, new in wanted:
        at = where % (len(data) + 1)
        match kind:
            case "flip":
                data = (
                    data[:at] + bytes(byte ^ new[0] for byte in data[at : at + 1]) + data[at + 1 :]
                )
            case "set":
                data = data[:at] + new + data[at + len(new) :]
            case "insert":
                data = data[:at] + new + data[at:]
            case _:
                data = data[:at]
    return data


# --- messages with all fields set ----------------------------------------------------------------

_VALUES: dict[str, Any] = {
    "string": "name",
    "bytes": b"some bytes",
    "records": b"some bytes",
    "uuid": UUID(int=7),
    "bool": True,
    "bitfield": {1, 3},
    "float64": 1.5,
}


def filled(kind: Any, fields: Any, version: int) -> Any:
    """Return a message or a part of it."""
    there = [field for field in fields if field.for_version_q(version)]
    return kind(**{field.name: _value(field, version) for field in there})


def _value(field: Any, version: int) -> Any:
    if field.is_struct_array():
        inner = field.array_of
        return [filled(inner.data_class, inner.fields.values(), version) for _ in range(2)]
    if field.is_struct():
        return filled(field.data_class, field.fields.values(), version)
    if field.is_array():
        return [_VALUES.get(field.array_of.type_str, 3)] * 2
    # An error code would change the processing of a response to ApiVersions or SASL.
    return 0 if field.name == "error_code" else _VALUES.get(field.type_str, 3)


@cache
def body_of(name: str, version: int) -> bytes:
    """The response to a request; its decoder is compiled first, because that needs memory."""
    kind = KINDS[name][1]
    body = bytes(filled(kind, kind._struct.fields.values(), version).encode(version=version))
    decode(name, version, body)
    return body


def decode(name: str, version: int, body: bytes) -> None:
    """Decode as a connection does."""
    if name in DECODERS:
        DECODERS[name](memoryview(body), version)
        return
    kind = response_class(KINDS[name][0].API_KEY, version)
    reject_nulls(decode_message(kind, version, memoryview(body)), version)


def versions_of(name: str) -> range:
    return range(OLDEST.get(name, 0), KINDS[name][0].max_version + 1)


# --- a connection that receives them -------------------------------------------------------------


def ready(version: int) -> RecordedConnection:
    """A connection to a broker that supports one version of each API, if it exists."""
    connection = RecordedConnection()
    connection.opened(0)
    offered = {kind.API_KEY: (min(version, kind.max_version),) * 2 for kind, _ in KINDS.values()}
    response = api_versions(offered).encode(version=messages.ApiVersionsRequest.max_version)
    connection.receive(memoryview(struct.pack(">i", number_of(connection)) + bytes(response)), 0)
    assert connection.state is ConnectionState.READY
    return connection


def number_of(connection: RecordedConnection) -> int:
    """The correlation id of the last request."""
    *_, frame = connection.frames
    return int(struct.unpack_from(">i", frame, 8)[0])


def header_of(connection: RecordedConnection, name: str, version: int) -> bytes:
    """The header of the response to the last request."""
    flexible = name != "ApiVersions" and KINDS[name][0].flexible_version_q(version)
    return struct.pack(">i", number_of(connection)) + b"\0" * flexible


def waiting(connection: RecordedConnection, name: str, version: int) -> tuple[UnsentRequest, bytes]:
    """Send a request, and return it with the header of its response."""
    kind = KINDS[name][0]
    message = filled(kind, kind._struct.fields.values(), version)
    request = UnsentRequest(message, ANY_NODE, 10_000, 1_000, decode=DECODERS.get(name))
    connection.send(request, 0)
    return request, header_of(connection, name, version)


def take(connection: RecordedConnection, frame: bytes) -> KafkaError | None:
    """Receive a frame; return the error that closes the connection, if any."""
    try:
        with traced(frame):
            delivery = connection.receive(memoryview(frame), 5)
    except KafkaError as error:
        for each in connection.close(error, 5):
            each.deliver()
        return error
    if delivery is not None:
        delivery.deliver()
    return None


@contextmanager
def traced(data: bytes) -> Iterator[None]:
    """Check that the block allocates only a small multiple of the size of the bytes."""
    tracemalloc.start()
    try:
        yield
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < (1 << 20) + 100 * len(data)


def check(name: str, version: int, wrong: Any) -> None:
    """Send two requests; the response to the first is `wrong(header, body)`."""
    connection = ready(version)
    first, header = waiting(connection, name, version)
    second, _ = waiting(connection, "Heartbeat", min(version, 4))
    error = take(connection, wrong(header, body_of(name, version)))
    if error is None:
        assert isinstance(first.future.result(), ClientResponse)
        assert not second.future.done
        assert connection.in_flight == 1
        return
    of_first, of_second = first.future.error, second.future.error
    assert isinstance(of_second, KafkaConnectionError)
    assert of_second.__cause__ is error
    if isinstance(error, KafkaProtocolError):
        assert of_first is error
        assert first.message.name in str(error) or name in DECODERS
    else:
        assert isinstance(of_first, KafkaConnectionError), (
            "the first response matches another request"
        )


@pytest.mark.parametrize("name", KINDS)
def test_valid_bodies_with_all_fields_are_decoded(name: str) -> None:
    for version in versions_of(name):
        connection = ready(version)
        first, header = waiting(connection, name, version)
        assert take(connection, header + body_of(name, version)) is None
        response = first.future.result().message
        if name not in DECODERS:
            assert encode_message(response, version) == body_of(name, version)


@pytest.mark.parametrize("name", KINDS)
def test_truncated_bodies_are_rejected(name: str) -> None:
    for version in versions_of(name):
        body = body_of(name, version)
        for at in range(len(body)):
            with pytest.raises(Exception):  # noqa: B017, PT011 - a connection distinguishes them
                decode(name, version, body[:at])


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_mutated_bodies_are_errors_of_their_requests(name: str, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions_of(name)))
    wanted = data.draw(changes)
    check(name, version, lambda header, body: header + mutate(body, wanted))
    check(name, version, lambda header, body: mutate(header + body, wanted))


@contextmanager
def little_memory() -> Iterator[None]:
    """Limit the memory to 64 MiB more, which is faster than tracing each allocation."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(sys.platform != "linux", reason="counts its pages as Linux tells them")
@pytest.mark.parametrize("name", KINDS)
def test_huge_lengths_allocate_nothing(name: str) -> None:
    """At all positions, with plain and with compact lengths."""
    for version in {versions_of(name)[0], versions_of(name)[-1]}:
        body = body_of(name, version)
        with little_memory():
            for at, big in product(range(len(body)), (BIG[0], BIG[3], BIG[4])):
                try:
                    decode(name, version, mutate(body, [("set", at, big)]))
                except MemoryError:
                    raise
                except Exception:  # noqa: BLE001, S110 - a connection distinguishes them
                    pass


def test_a_header_counts_its_tags_in_five_bytes() -> None:
    count = b"\xff" * 1_000 + b"\0"
    with pytest.raises(ValueError, match="more than five bytes"):
        parse_header(memoryview(b"\0\0\0\1" + count), messages.MetadataRequest(), 12)
    most = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(IndexError):
        parse_header(memoryview(b"\0\0\0\1" + most), messages.MetadataRequest(), 12)


# --- requests of the connection itself -----------------------------------------------------------

#: The requests in order, with their versions and valid responses.
SETUP = [
    ("ApiVersions", 4, api_versions({17: (0, 1), 18: (0, 4), 36: (0, 2)})),
    ("SaslHandshake", 1, messages.SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"])),
    (
        "SaslAuthenticate",
        2,
        messages.SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=60_000
        ),
    ),
]


def responses() -> Iterator[tuple[RecordedConnection, bytes, bytes]]:
    """The setup of a connection: yields before each step, with the response's header and body."""
    connection = RecordedConnection(exchange=lambda: SaslExchange(SASL, "host", NOTHING_OFFLOADED))
    connection.opened(0)
    for name, version, response in SETUP:
        header, body = header_of(connection, name, version), bytes(response.encode(version=version))
        yield connection, header, body
        assert connection.receive(memoryview(header + body), 0) is None
    assert connection.state is ConnectionState.READY


def test_a_connection_is_set_up_by_valid_responses() -> None:
    assert len(list(responses())) == len(SETUP)


@pytest.mark.parametrize("step", range(len(SETUP)))
@settings(max_examples=examples(150))
@given(wanted=changes)
def test_a_connection_is_set_up_or_fails(step: int, wanted: list[Change]) -> None:
    connection, header, body = next(islice(responses(), step, None))
    state = connection.state
    error = take(connection, header + mutate(body, wanted))
    if error is None:
        assert connection.state in {state, ConnectionState.AUTHENTICATING, ConnectionState.READY}
    else:
        assert connection.state is ConnectionState.CLOSED
        assert re.search(f"{re.escape(str(NODE_1))}|ApiVersions|SASL|Sasl", str(error))
