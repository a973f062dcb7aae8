"""The declared types of kafka-python's classes match the classes."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
from pathlib import Path

import pytest

import tandem_kafka
from tandem_kafka import (
    ConsumerRecord,
    ConsumerRecords,
    KafkaConsumer,
    consumer_record,
    errors,
    types,
)
from tandem_kafka.types import TopicPartition

STUB = Path(tandem_kafka.__file__).with_name("_kafka.pyi")
HOMES = ("kafka.errors", "kafka.structs", "kafka", "kafka.future")
DECLARED = {
    each.name: each
    for each in ast.parse(STUB.read_text(encoding="utf-8")).body
    if isinstance(each, ast.ClassDef | ast.FunctionDef)
}
#: Subclasses of kafka-python's errors, with the partition and the next offset.
EXTENDED = {"CorruptRecordError", "UnsupportedCodecError"}
CLASSES = [name for name, each in DECLARED.items() if isinstance(each, ast.ClassDef)]


def at_run_time(name: str) -> object:
    for home in map(importlib.import_module, HOMES):
        if hasattr(home, name):
            return getattr(home, name)
    raise LookupError(name)


def fields_of(declared: ast.ClassDef) -> dict[str, ast.expr | None]:
    return {
        each.target.id: each.value
        for each in declared.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


@pytest.mark.parametrize("name", CLASSES)
def test_a_declared_class_has_these_bases_and_methods(name: str):
    declared, found = DECLARED[name], at_run_time(name)
    assert isinstance(declared, ast.ClassDef)
    assert isinstance(found, type)
    bases = {ast.unparse(base) for base in declared.bases} - {"NamedTuple", "ABC"}
    assert bases <= {base.__name__ for base in found.__mro__[1:]}
    for each in declared.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            method = getattr(found, each.name)
            required = len(each.args.posonlyargs + each.args.args) - len(each.args.defaults)
            inspect.signature(method).bind(*range(required))
            is_async = isinstance(each, ast.AsyncFunctionDef)
            assert inspect.iscoroutinefunction(method) == is_async
            abstract = any(ast.unparse(mark) == "abstractmethod" for mark in each.decorator_list)
            assert getattr(method, "__isabstractmethod__", False) == abstract


@pytest.mark.parametrize(
    "name", [name for name in CLASSES if "NamedTuple" in ast.unparse(DECLARED[name])]
)
def test_a_declared_tuple_has_these_fields_and_defaults(name: str):
    declared, found = fields_of(DECLARED[name]), at_run_time(name)
    assert tuple(declared) == found._fields
    # Defaults of fields that are always set, such as None for an offset, are omitted.
    for field, value in declared.items():
        if value is not None:
            assert ast.literal_eval(value) == found._field_defaults[field]


@pytest.mark.parametrize("name", ["KafkaError", "BrokerResponseError"])
def test_a_declared_error_has_these_attributes(name: str):
    assert all(hasattr(at_run_time(name), field) for field in fields_of(DECLARED[name]))


def test_the_classes_are_those_of_kafka_python_or_extend_them():
    for module in (errors, types, tandem_kafka):
        for name in set(DECLARED) & set(module.__all__):
            found = getattr(module, name)
            if name in EXTENDED:
                assert issubclass(found, at_run_time(name))
            else:
                assert found is at_run_time(name)


def test_every_error_of_kafka_python_is_declared():
    theirs = {
        name
        for name in errors.__all__
        if getattr(getattr(errors, name), "__module__", "").startswith("kafka")
    }
    assert theirs <= set(DECLARED)


def test_a_record_is_declared_with_the_fields_that_it_has():
    body = ast.parse(inspect.getsource(consumer_record)).body
    (block,) = (
        each for each in body if isinstance(each, ast.If) and isinstance(each.body[0], ast.ClassDef)
    )
    assert tuple(fields_of(block.body[0])) == ConsumerRecord._fields


def test_annotations_with_types_work_at_run_time():
    for kind in (KafkaConsumer, ConsumerRecord, ConsumerRecords):
        assert kind[bytes, str].__origin__ is kind
    assert issubclass(type("Mine", (KafkaConsumer,), {}), KafkaConsumer)
    record = ConsumerRecord("t", 0, 0, 1, 2, 0, None, b"v", [], None, -1, 1, -1)
    assert pickle.loads(pickle.dumps(record)) == record
    assert not hasattr(record, "__dict__")
    assert not hasattr(ConsumerRecords(), "__dict__")
    assert pickle.loads(pickle.dumps({TopicPartition("t", 0): 1})) == {("t", 0): 1}
