"""Decoders for `poll_arrow()`: keys and values become Arrow columns of their content.

Those of documents and text are written in Rust, and work without the GIL, on the thread that polls
and on further ones if there is enough to do. Any object with the methods of `ArrowDecoder` can take
their place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

try:
    import pyarrow as pa
except ImportError as error:
    _MISSING = "tandem_kafka.tables needs pyarrow; run: pip install tandem-kafka[arrow]"
    raise ImportError(_MISSING) from error

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import new_lock
from tandem_kafka.runtime.native import native
from tandem_kafka.tables.numbers import Double, Float, Integer, Long, Short, check_errors
from tandem_kafka.tables.registry import SchemaId, SchemaRegistry, Schemas, named
from tandem_kafka.types import ArrowDecoder, DecodeErrors

if TYPE_CHECKING:
    from tandem_kafka._native import ColumnDecoder

__all__ = [
    "ArrowDecoder",
    "Avro",
    "Double",
    "Float",
    "Integer",
    "Json",
    "Long",
    "Protobuf",
    "SchemaRegistry",
    "Short",
    "Text",
]

log = client_logger(__name__)

_UNITS: Final = ("us", "ns")
#: The digits of decimal128 and decimal256.
_PRECISIONS: Final = (38, 76)


class _Decoder:
    """What all decoders have in common.

    Attributes:
        errors: What happens to a record that cannot be decoded.
        flatten: Whether the fields become columns of the batch.
    """

    def __init__(self, errors: DecodeErrors, *, flatten: bool = False) -> None:
        check_errors(errors)
        if native is None:
            msg = (
                f"{type(self).__name__} needs the native extension, which is not loaded: reinstall "
                "tandem-kafka from a wheel, or unset TANDEM_KAFKA_IMPL"
            )
            raise ImportError(msg)
        self.errors: DecodeErrors = errors
        self.flatten = flatten
        self._native = native
        self._decoder: ColumnDecoder

    @property
    def schema(self) -> pa.DataType:
        """The type of the decoded column; null before a record has told it.

        Fields of structs are nullable, even if no value lacks them: those of a tombstone are null.
        """
        return pa.field(self._decoder.data_type).type

    def decode(self, column: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why.

        Such a row is null. Works on any column of binary or string.
        """
        decoded, failures = self._decoder.decode(column)
        return pa.array(decoded), failures

    def _use(self, make: Callable[[], ColumnDecoder], origin: str = "") -> None:
        try:
            decoder = make()
            # A name with U+0000 has no place in Arrow.
            schema = pa.field(decoder.data_type).type
        except ValueError as error:
            msg = f"{type(self).__name__}: {origin}{error}"
            raise InvalidArgumentError(msg) from None
        if self.flatten and not pa.types.is_struct(schema) and not pa.types.is_null(schema):
            msg = f"flatten needs values with fields, and this schema is {schema}"
            raise InvalidArgumentError(msg)
        self._decoder = decoder


class Json(_Decoder):
    """Decodes JSON documents to the types of a schema, usually into a column of structs.

    A document is checked whole (RFC 8259); of names that are read, none may be in an object twice.
    Nothing is converted that would change: 1.5 is no int64, "1" no number, 0.005 no decimal(18, 2);
    2.0 and 1e16 are integers. A timestamp or date is a string in ISO 8601, in UTC unless it has an
    offset, or a number in the unit of the type; a value of type binary is base64. The id of a
    schema that Confluent's serializer writes before a document is skipped, as is a byte order mark.
    Fields that are missing are null, or an error if the schema says `nullable=False`. Fields that
    the schema does not name are ignored.
    The document `null`, like a tombstone, is null.

    Args:
        schema: The fields of the documents, or the type of documents that are no objects. Types
            are null, bool, integers, float32, float64, decimal128, date32, timestamp, string,
            binary, list, struct, map, and the large variants of string, binary and list.
        errors: ``"raise"``: ``poll_arrow()`` first returns the records before it, and then raises
            `RecordDeserializationError` until a seek. ``"null"``: the value is null, and the
            column ``error`` says why. ``"drop"``: the record is left out, and counted in the
            metric ``records-dropped-total``.
        flatten: The fields become columns of the batch, in place of the column of structs.

    Raises:
        InvalidArgumentError: A type cannot be read from JSON, or ``errors`` is none of these.
        ImportError: The native extension is not loaded.
    """

    def __init__(
        self,
        schema: pa.Schema | pa.DataType,
        *,
        errors: DecodeErrors = "raise",
        flatten: bool = False,
    ) -> None:
        super().__init__(errors, flatten=flatten)
        if not hasattr(schema, "__arrow_c_schema__"):
            msg = (
                "schema must be a pyarrow.Schema or a type such as "
                f'pa.struct([("id", pa.int64())]), got {schema!r}'
            )
            raise InvalidArgumentError(msg)
        self._use(lambda: self._native.ColumnDecoder.json(schema))
        #: How many documents tell the schema; None once it is known.
        self._samples: int | None = None

    @classmethod
    def infer(
        cls, samples: int = 1_000, *, errors: DecodeErrors = "raise", flatten: bool = False
    ) -> Self:
        """Return a decoder that takes the schema from the first documents that it decodes.

        Later batches keep that schema. Fields have the types null, bool, int64, uint64, float64,
        string, list and struct. Another run may see other documents first: give a schema if the
        type of the result matters.

        No digit of an integer is lost: a field with integers of 2^63 to 2^64-1 is uint64. Larger
        ones, negative ones among these, and integers beyond 2^53 among fractions need a schema.

        Args:
            samples: How many documents to look at; not more than the first batch has.
            errors: As in the constructor.
            flatten: As in the constructor.

        Raises:
            InvalidArgumentError: ``samples`` is not positive. Raised by ``poll_arrow()`` if a field
                has types that have nothing in common, or no type for all digits.
        """
        if not isinstance(samples, int) or samples < 1:  # type: ignore[redundant-expr]
            msg = f"samples must be a positive int, got {samples!r}"
            raise InvalidArgumentError(msg)
        made = cls(pa.null(), errors=errors, flatten=flatten)
        made._samples = samples
        return made

    def decode(self, column: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why.

        Such a row is null. Works on any column of binary or string.
        """
        samples = self._samples
        if samples is not None and column.null_count < len(column):
            self._use(lambda: self._native.ColumnDecoder.infer_json(column, samples))
            if not pa.types.is_null(self.schema):
                self._samples = None
        return super().decode(column)


class _Registered(_Decoder):
    """A decoder that may learn schemas from a registry."""

    def __init__(self, errors: DecodeErrors, *, flatten: bool) -> None:
        super().__init__(errors, flatten=flatten)
        self._schemas: Schemas | None = None
        #: Whether something names the schema of each value.
        self._framed = False
        self._lock = new_lock()
        #: How many schemas the decoder knows.
        self._built = 0

    @property
    def reads_schema_header(self) -> bool:
        """Whether a header may name the schema."""
        return self._framed

    def decode(
        self, column: pa.Array, headers: pa.Array | None = None
    ) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why.

        Such a row is null. Works on any column of binary.

        Args:
            column: The values.
            headers: The headers ``__key_schema_id`` or ``__value_schema_id`` of their records, null
                where there is none.

        Raises:
            SchemaRegistryError: The registry did not answer, or refused the request.
            InvalidArgumentError: The schema of the first record has no type in Arrow.
        """
        if self._schemas is not None:
            ids = self._native.ColumnDecoder.schema_ids(column, headers)
            with self._lock:
                self._schemas.fetch(ids)
                # Not what was fetched just now: an interrupt may have come before this.
                if len(self._schemas.known) > self._built:
                    self._rebuild()
                    self._built = len(self._schemas.known)
        decoded, failures = self._decoder.decode(column, headers)
        return pa.array(decoded), failures

    def _rebuild(self) -> None:
        """Make the decoder of the schemas that are known."""
        raise NotImplementedError


class Avro(_Registered):
    """Decodes Avro, usually records into a column of structs.

    Without a registry, values are bare Avro of the schema. With one, each value begins with a zero
    byte and the id of its schema in 4 bytes, or its record has a header with the GUID of the
    schema, as the serializers of Confluent write them. Values of other schemas are resolved to the
    one that was given, or else that of the first record: fields by name or alias, defaults,
    promotions, unions. Outside unions, the names of types are not compared.

    Types of Arrow are those of Avro. An enum is a string, uuid keeps the type it is written in,
    other logical types are decoded. A union with null is nullable, int with long is int64, float
    with double is float64; any other union is a struct with the fields member0, member1 and so on,
    of which one is not null. Timestamps and times may become finer, decimals keep their scale. No
    Arrow type refers to itself, so the reader's schema may not.

    A value is checked whole: bytes that are missing or left over are errors.

    Args:
        schema: The reader's schema, as JSON or as what JSON stands for.
        registry: A client such as ``confluent_kafka.schema_registry.SchemaRegistryClient``. It is
            asked once for each schema, on the thread that polls (asyncio: in the event loop).
        max_precision: The most digits of a decimal. With 38, a decimal of more digits has the type
            decimal128(38, scale), which DuckDB, polars, Delta Lake and Spark take, and a value that
            does not fit is such an error. With 76, it is decimal256. Kafka Connect writes decimals
            of 64 digits by default.
        errors: As for `Json`. A schema that the registry does not have is such an error; it is
            asked for again after ten seconds.
        flatten: The fields become columns of the batch, in place of the column of structs.
        timeout_ms: How long to ask a registry for the schemas of a call, and for those that they
            refer to (at most 1,000 each), in milliseconds; also again if it is down.
            ``poll_arrow()`` raises `SchemaRegistryError` then, and positions stay. A call of the
            client itself is not cut short: it has timeouts of its own.

    Raises:
        InvalidArgumentError: The schema is none, or has no type in Arrow; there is neither schema
            nor registry; ``max_precision`` or ``errors`` is none of these. Raised by
            ``poll_arrow()`` if the schema of the first record has no type in Arrow.
        ImportError: The native extension is not loaded.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        registry: SchemaRegistry | None = None,
        max_precision: Literal[38, 76] = 76,
        errors: DecodeErrors = "raise",
        flatten: bool = False,
        timeout_ms: float = 30_000,
    ) -> None:
        super().__init__(errors, flatten=flatten)
        if schema is None and registry is None:
            msg = "Avro needs a schema, a registry, or both"
            raise InvalidArgumentError(msg)
        if max_precision not in _PRECISIONS:
            msg = f"max_precision must be 38 or 76, got {max_precision!r}"
            raise InvalidArgumentError(msg)
        self._max_precision = max_precision
        self._reader: Sequence[str] | None = None
        #: The schema of the first record, if none was given.
        self._first: SchemaId | None = None
        if schema is not None:
            self._reader = [schema if isinstance(schema, str) else _json(schema)]
        if registry is not None:
            self._schemas, self._framed = Schemas(registry, timeout_ms, "AVRO"), True
        self._rebuild()

    def _rebuild(self) -> None:
        writers = None if self._schemas is None else self._schemas.known
        if self._reader is None and writers:
            self._first = next(iter(writers))
            self._reader = writers[self._first]
        reader = self._reader or ['"null"']
        make = self._native.ColumnDecoder.avro
        first = self._first
        origin = "" if first is None else f"the first record has schema {named(first)}: "
        self._use(lambda: make(reader, writers, self._max_precision), origin)
        if first is not None and writers:
            for each in [*writers][self._built :]:
                more = self._decoder.left_out(each)
                if more:
                    log.warning(
                        "Schema %s has fields that are left out, as schema %s of the first record "
                        "lacks them: %s; give Avro() a schema with them, or start again",
                        named(each),
                        named(first),
                        more,
                    )


def _json(schema: Mapping[str, Any] | Sequence[Any]) -> str:
    try:
        return json.dumps(schema)
    except (TypeError, ValueError) as error:
        msg = f"schema must be JSON, or what JSON stands for, got {schema!r}: {error}"
        raise InvalidArgumentError(msg) from None


class Protobuf(_Registered):
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


class Text(_Decoder):
    """Decodes UTF-8 into a column of type string.

    Args:
        errors: What happens to invalid UTF-8, as for `Json`.

    Raises:
        InvalidArgumentError: ``errors`` is none of these.
        ImportError: The native extension is not loaded.
    """

    def __init__(self, *, errors: DecodeErrors = "raise") -> None:
        super().__init__(errors)
        self._decoder = self._native.ColumnDecoder.text()
