"""Compares all methods, parameters, attributes and options with kafka-python's consumer."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import kafka as kafka_python
import pytest

from tandem_kafka import KafkaConsumer

THEIRS = kafka_python.KafkaConsumer
PUBLIC = [name for name in dir(THEIRS) if not name.startswith("_")]
METHODS = [name for name in PUBLIC if callable(getattr(THEIRS, name))]
SPECIAL = ["__enter__", "__exit__", "__iter__", "__next__"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from" / "kafka-python.md"


def section(title: str) -> str:
    """Return a section of the page of differences."""
    return PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


MISSING = re.findall(r"^- `(\w+)`: ", section("Attributes that are missing"), re.MULTILINE)


@pytest.mark.parametrize("name", [*PUBLIC, *SPECIAL])
def test_every_attribute_exists(name: str) -> None:
    if name in MISSING:
        assert not hasattr(KafkaConsumer, name), "remove it from the page"
        return
    assert hasattr(KafkaConsumer, name)
    assert callable(getattr(KafkaConsumer, name)) == callable(getattr(THEIRS, name))


def parameters(consumer_class: Any, name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(consumer_class, name)).parameters)


@pytest.mark.parametrize("name", [*METHODS, "__init__"])
def test_every_parameter_exists_in_its_place(name: str) -> None:
    ours, theirs = parameters(KafkaConsumer, name), parameters(THEIRS, name)
    kinds = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    named = [p for p, parameter in theirs.items() if parameter.kind not in kinds]
    assert list(ours)[: len(named)] == named
    for each in named:
        assert ours[each].kind == theirs[each].kind
        assert ours[each].default == theirs[each].default, each
    for each in theirs.keys() - set(named):
        assert any(p.kind == theirs[each].kind for p in ours.values()), each
    for each in list(ours)[len(named) :]:
        optional = ours[each].default is not inspect.Parameter.empty
        assert optional or ours[each].kind in kinds, f"a program would have to give {each}"


@pytest.mark.parametrize("name", THEIRS.DEFAULT_CONFIG)
def test_every_option_exists(name: str) -> None:
    assert name in KafkaConsumer.DEFAULT_CONFIG


def test_defaults_differ_only_as_documented() -> None:
    ours, theirs = KafkaConsumer.DEFAULT_CONFIG, THEIRS.DEFAULT_CONFIG
    differing = {
        (name, repr(theirs[name]), repr(ours[name]))
        for name in theirs
        if ours[name] != theirs[name]
    }
    row = re.compile(r"^\| `(\w+)` \| `(.+?)` \| `(.+?)` \|", re.MULTILINE)
    assert set(row.findall(section("Defaults that differ"))) == differing
