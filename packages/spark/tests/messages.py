"""Descriptors of Protobuf messages for tests, without protoc."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
)

__all__ = ["descriptors", "message_class"]

_FIELD = descriptor_pb2.FieldDescriptorProto


def _field(into: Any, name: str, kind: int, **more: Any) -> None:
    number = len(into.field) + 1
    into.field.add(name=name, number=number, type=kind, **{"label": 1, **more})


def _shop() -> Any:
    """Return the file with Order and Refund, in proto3."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kinds = file.enum_type.add(name="Kind")
    kinds.value.add(name="NEW", number=0)
    kinds.value.add(name="PAID", number=1)
    refund = file.message_type.add(name="Refund")
    _field(refund, "id", _FIELD.TYPE_INT64)
    order = file.message_type.add(name="Order")
    _field(order, "id", _FIELD.TYPE_INT64)
    _field(order, "large", _FIELD.TYPE_UINT64)
    _field(order, "kind", _FIELD.TYPE_ENUM, type_name=".shop.Kind")
    _field(order, "tags", _FIELD.TYPE_STRING, label=3)
    _field(order, "at", _FIELD.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    _field(order, "to", _FIELD.TYPE_MESSAGE, type_name=".shop.Order.Address")
    _field(order, "counts", _FIELD.TYPE_MESSAGE, label=3, type_name=".shop.Order.CountsEntry")
    order.oneof_decl.add(name="_note")
    note = {"proto3_optional": True, "oneof_index": 0}
    _field(order, "note", _FIELD.TYPE_STRING, **note)
    address = order.nested_type.add(name="Address")
    _field(address, "city", _FIELD.TYPE_STRING)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _field(entry, "key", _FIELD.TYPE_STRING)
    _field(entry, "value", _FIELD.TYPE_INT32)
    tree = file.message_type.add(name="Tree")
    _field(tree, "leaves", _FIELD.TYPE_MESSAGE, label=3, type_name=".shop.Tree")
    return file


def descriptors() -> bytes:
    """Return a FileDescriptorSet like protoc's."""
    whole = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(whole.file.add())
    whole.file.append(_shop())
    found: bytes = whole.SerializeToString()
    return found


def message_class(name: str, files: Any = None) -> Any:
    """Return a message class like protoc's, from these files or from `descriptors()`."""
    pool = descriptor_pool.DescriptorPool()
    for each in (files or descriptor_pb2.FileDescriptorSet.FromString(descriptors())).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
