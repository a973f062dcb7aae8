"""The package's dataclasses have the fields, equality and text of the standard ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tandem_kafka.dataclass import dataclass


@dataclass(frozen=True)
class Ours:
    first: int
    #: Not shown.
    secret: str = dataclasses.field(default="s", repr=False)
    each: list[int] = dataclasses.field(default_factory=list)
    named: int | None = dataclasses.field(default=None, kw_only=True)


@dataclasses.dataclass(frozen=True)
class Standard:
    first: int
    secret: str = dataclasses.field(default="s", repr=False)
    each: list[int] = dataclasses.field(default_factory=list)
    named: int | None = dataclasses.field(default=None, kw_only=True)


@dataclass(kw_only=True)
class Child(Ours):
    more: tuple[int, ...] = ()


@dataclass(eq=False)
class Identity:
    field: object = None


@dataclass(frozen=True)
class Nothing:
    pass


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((1,), {}),
        ((1, "x"), {"each": [2]}),
        ((), {"first": 1, "named": 3}),
        ((), {}),
        ((1,) * 4, {}),
    ],
)
def test_it_takes_and_shows_what_the_standard_one_does(given: Any, named: Any) -> None:
    try:
        standard = Standard(*given, **named)
    except TypeError:
        with pytest.raises(TypeError):
            Ours(*given, **named)
        return
    ours = Ours(*given, **named)
    assert dataclasses.asdict(ours) == dataclasses.asdict(standard)
    assert repr(ours) == repr(standard).replace("Standard", "Ours")
    assert ours == Ours(*given, **named) != dataclasses.replace(ours, secret="other")


def test_equal_objects_have_one_hash_if_they_are_frozen() -> None:
    assert len({Nothing(), Nothing()}) == 1
    assert hash(Ours(1, each=())) == hash(Ours(1, each=()))  # type: ignore[arg-type]
    assert Nothing() != Ours(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Child(first=1))


def test_each_object_has_its_own_default() -> None:
    assert Ours(1).each is not Ours(1).each


def test_a_child_has_the_fields_of_its_base_and_no_other_attributes() -> None:
    child = Child(first=1, more=(2,))
    assert repr(child) == "Child(first=1, each=[], named=None, more=(2,))"
    with pytest.raises(AttributeError):
        child.other = 1  # type: ignore[attr-defined]


def test_an_identity_equals_no_other_and_shows_a_circle() -> None:
    one = Identity()
    one.field = one
    assert one != Identity(one)
    assert repr(one) == "Identity(field=...)"
