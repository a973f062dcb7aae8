"""`Protobuf`: the decoder of messages of Protobuf."""

from __future__ import annotations

import base64
from typing import Any, ClassVar, Final, Literal

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.tables.registered_decoder import RegisteredDecoder
from tandem_kafka.tables.registry import SchemaId, SchemaRegistry, Schemas
from tandem_kafka.types import DecodeErrors

_UNITS: Final = ("us", "ns")


class Protobuf(RegisteredDecoder):
    """Decodes messages of Protobuf into a column of structs.

    Bytes are read as Google's libraries read them: unknown fields are skipped, the last value of a
    scalar counts, messages that come twice merge. A known field with another wire type, a missing
    required field, invalid UTF-8 and a time outside its range are errors.

    Types of Arrow are those of Protobuf, and maps are maps. An enum is a string: a symbol, or the
    digits of a number that the enum does not have; a value of a closed enum (proto2) with such a
    number is unknown, also in a list, and so is the entry of a map. Timestamp and Duration have the
    unit that ``unit`` names; the wrappers such as Int64Value are the type that they wrap. A field
    that is missing has the default of its type if it has no presence (proto3 without optional), the
    default that a file of proto2 gives it, an empty list or map, and else is null, as is a field of
    a oneof that is not set. No Arrow type contains itself, so neither may a message; see
    ``struct_as_json``.

    Args:
        descriptor: A generated class, its ``DESCRIPTOR``, or the bytes of a ``FileDescriptorSet``
            (``protoc --include_imports --descriptor_set_out=FILE``).
        message: The full name of the message, such as ``shop.Order``; only with bytes.
        confluent: Values begin with a zero byte, the id of a schema and the indexes of a message,
            or a header has its GUID and the indexes, as the serializers of Confluent write them.
            The descriptor reads what other versions of it wrote: fields have numbers. With True, no
            registry is asked, and a record of another message type is not noticed. With a client
            such as ``confluent_kafka.schema_registry.SchemaRegistryClient``, such a record is an
            error; the registry must support ``format=serialized``.
        unit: The unit of times, ``"us"`` or ``"ns"``. A time with finer digits than microseconds is
            an error with ``"us"``, one outside the years 1678 to 2261 with ``"ns"``.
        struct_as_json: ``google.protobuf.Struct``, ``Value`` and ``ListValue``, which contain each
            other, become strings of JSON. A number that JSON lacks, such as NaN, is an error.
        errors: As for `Avro`.
        flatten: The fields become columns of the batch, in place of the column of structs.
        timeout_ms: As for `Avro`.

    Attributes:
        descriptors: The bytes of a ``FileDescriptorSet`` with the message.
        message: The full name of the message.

    Raises:
        InvalidArgumentError: The descriptor is none of these, or lacks the message or a type of it;
            the message contains itself; ``confluent``, ``unit`` or ``errors`` is none of these.
        ImportError: The native extension is not loaded.
    """

    #: Whether wrappers such as Int64Value stay messages, and times lose digits finer than `unit`.
    as_spark: ClassVar = False

    def __init__(  # noqa: PLR0913 - options, all with a name
        self,
        descriptor: Any,
        message: str | None = None,
        *,
        confluent: SchemaRegistry | bool = False,
        unit: Literal["us", "ns"] = "us",
        struct_as_json: bool = False,
        errors: DecodeErrors = "raise",
        flatten: bool = False,
        timeout_ms: float = 30_000,
    ) -> None:
        super().__init__(errors, flatten=flatten)
        if unit not in _UNITS:
            msg = f"unit must be one of {', '.join(_UNITS)}, got {unit!r}"
            raise InvalidArgumentError(msg)
        self._nanoseconds = unit == "ns"
        self._struct_as_json = bool(struct_as_json)
        self.descriptors, self.message = _descriptors(descriptor, message)
        self._framed = confluent is not False
        if not isinstance(confluent, bool):
            self._schemas = Schemas(confluent, timeout_ms, "PROTOBUF")
        self._rebuild()

    def _rebuild(self) -> None:
        files: dict[SchemaId, bytes] | None = None
        if self._schemas is not None:
            files = {each: _serialized(text) for each, (*_, text) in self._schemas.known.items()}
        make = self._native.ColumnDecoder.protobuf
        style = self._nanoseconds, self._struct_as_json, self.as_spark
        self._use(lambda: make(self.descriptors, self.message, self._framed, files, *style))


def _serialized(text: str) -> bytes:
    """Return a file descriptor in base64; what is none stays, and the decoder says so."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode()


def _descriptors(descriptor: Any, message: str | None) -> tuple[bytes, str]:
    """Return a FileDescriptorSet, and the name of the message in it."""
    if isinstance(descriptor, bytes):
        if not isinstance(message, str):
            msg = f"with the bytes of a FileDescriptorSet, give message=, got {message!r}"
            raise InvalidArgumentError(msg)
        return descriptor, message
    described = getattr(descriptor, "DESCRIPTOR", descriptor)
    file, name = getattr(described, "file", None), getattr(described, "full_name", None)
    if not hasattr(described, "fields_by_number") or not isinstance(name, str):
        msg = (
            "descriptor must be a generated class of protobuf, its DESCRIPTOR, or the bytes of a "
            f"FileDescriptorSet, got {descriptor!r}"
        )
        raise InvalidArgumentError(msg)
    if message is not None:
        msg = f"message= goes with the bytes of a FileDescriptorSet only, got {message!r}"
        raise InvalidArgumentError(msg)
    files: dict[str, bytes] = {}
    pending: list[Any] = [file]
    while pending:
        each = pending.pop()
        if each.name not in files:
            files[each.name] = each.serialized_pb
            pending += each.dependencies
    # A FileDescriptorSet has files as its field 1.
    return b"".join(b"\x0a" + _varint(len(each)) + each for each in files.values()), name


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
