"""Decodes Protobuf values to the requested message.

Protobuf identifies fields by number, so the requested version of a message can read older and newer
ones. The registry identifies the message of a value.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.types import DataType

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.decoding.framed import framed
from tandem_kafka.spark.decoding.framing import DecodingError, message_path
from tandem_kafka.spark.decoding.protobuf_types import spark_type, to_dict
from tandem_kafka.spark.decoding.registry import Registry, RegistryError, Schemas

_FORM: Final = "serialized"


@dataclass(frozen=True, slots=True)
class ProtobufValues:
    """The message to read, with all files it needs, and the registry with the writers' schemas."""

    registry: Registry
    message: str
    files: bytes = field(repr=False)

    @classmethod
    def of(cls, registry: Registry, message: Any, descriptors: bytes | None) -> ProtobufValues:
        """Create it from a generated class, or from a message name and a FileDescriptorSet.

        Raises:
            InvalidArgumentError: The message is neither.
        """
        if isinstance(message, str):
            if not isinstance(descriptors, bytes):
                raise InvalidArgumentError(
                    "descriptors must be a FileDescriptorSet in bytes (protoc "
                    "--include_imports --descriptor_set_out) if message is a name, got "
                    f"{type(descriptors).__name__}"
                )
            found = cls(registry, message, descriptors)
            found.descriptor()
            return found
        described: Any = getattr(message, "DESCRIPTOR", None)
        if descriptors is not None or not hasattr(described, "fields_by_name"):
            raise InvalidArgumentError(
                "message must be a generated class, or a name with descriptors, got "
                f"{message!r}{' with descriptors' if descriptors is not None else ''}"
            )
        return cls(registry, described.full_name, _files_of(described.file))

    def descriptor(self) -> Any:
        """Return the message's descriptor, in a separate pool.

        Raises:
            InvalidArgumentError: The descriptors do not contain the message.
        """
        parts = _protobuf()
        try:
            whole = parts.descriptor_pb2.FileDescriptorSet.FromString(self.files)
            pool = parts.descriptor_pool.DescriptorPool()
            for each in whole.file:
                pool.Add(each)
            return pool.FindMessageTypeByName(self.message)
        except Exception as error:  # noqa: BLE001 - DecodeError, KeyError and TypeError, by version
            raise InvalidArgumentError(
                f"message: there is no {self.message} in the descriptors: {error}"
            ) from None

    def spark_type(self) -> DataType:
        """Return the type of the values.

        Raises:
            InvalidArgumentError: Spark has no corresponding type.
        """
        return spark_type(self.descriptor())

    def decoder(self) -> Callable[[bytes], Any]:
        """Return a function that decodes a value."""
        reader = _Reader(self.registry.schemas(), self.descriptor())
        return framed(reader.read, f"are not a valid {self.message}")


class _Reader:
    def __init__(self, schemas: Schemas, descriptor: Any) -> None:
        parts = _protobuf()
        self._schemas = schemas
        self._name = descriptor.full_name
        self._parse = parts.message_factory.GetMessageClass(descriptor).FromString
        self._convert = to_dict(descriptor)
        #: Message names by schema id and path.
        self._names: dict[tuple[int, tuple[int, ...]], str] = {}

    def read(self, number: int, value: bytes) -> Any:
        path, begin = message_path(value)
        self._check(number, path)
        return self._convert(self._parse(value[begin:]))

    def _check(self, number: int, path: tuple[int, ...]) -> None:
        """Reject other messages: their bytes may parse without an error, with wrong values."""
        name = self._names.get((number, path))
        if name is None:
            schema = self._schemas.get(number, "PROTOBUF", form=_FORM)
            name = self._names[number, path] = _message_at(schema.schema_str, path)
        if name != self._name:
            raise DecodingError(f"the message is {name}, not {self._name}")


def _message_at(text: str, path: tuple[int, ...]) -> str:
    """Return the full name of the message at a path in the registry's file."""
    parts = _protobuf()
    try:
        file = parts.descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    except ValueError:  # also protobuf's DecodeError
        raise RegistryError(
            "the registry does not support format=serialized for Protobuf schemas"
        ) from None
    names, inside = [file.package] if file.package else [], file.message_type
    for index in path:
        if not 0 <= index < len(inside):
            raise DecodingError(f"the schema has no message at {list(path)}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)


def _files_of(file: Any) -> bytes:
    """Return a file and its imports as a FileDescriptorSet, imports first."""
    parts = _protobuf()
    whole, seen = parts.descriptor_pb2.FileDescriptorSet(), set()

    def add(each: Any) -> None:
        if each.name in seen:
            return
        seen.add(each.name)
        for needed in each.dependencies:
            add(needed)
        each.CopyToProto(whole.file.add())

    add(file)
    found: bytes = whole.SerializeToString()
    return found


def _protobuf() -> Any:
    try:
        from google.protobuf import (  # noqa: PLC0415 - an extra
            descriptor_pb2,
            descriptor_pool,
            message_factory,
        )
    except ImportError:
        raise InvalidArgumentError(
            "from_protobuf needs protobuf: run pip install 'tandem-kafka[spark-protobuf]'"
        ) from None
    return _Parts(descriptor_pb2, descriptor_pool, message_factory)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The modules of protobuf that are used."""

    descriptor_pb2: Any
    descriptor_pool: Any
    message_factory: Any
