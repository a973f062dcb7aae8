"""Our dataclasses behave like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from tandem_kafka.dataclass import dataclass

R = TypeVar("R")


class Made:
    """The same classes, made by one of the decorators."""

    def __init__(self, dataclass: Callable[..., Any]) -> None:
        @dataclass(frozen=True, slots=True)
        class Point:
            """A point."""

            kind: ClassVar[str] = "point"
            x: int
            y: int = 2
            names: list[str] = field(default_factory=list)
            secret: str = field(default="s", repr=False)

        @dataclass(slots=True)
        class Counter:
            count: int = 0
            total: int = field(default=7, init=False)

        @dataclass(slots=True, eq=False)
        class Plain:
            made: list[int] = field(default_factory=list, init=False)

        @dataclass(frozen=True, slots=True, eq=False, kw_only=True)
        class Event(Generic[R]):
            deadline: int = 1
            future: list[R] = field(default_factory=list)

        @dataclass(frozen=True, slots=True, eq=False, kw_only=True)
        class Poll(Event[int]):
            partition: int

            def twice(self) -> int:
                return 2 * self.partition

        @dataclass(frozen=True, slots=True)
        class Empty:
            def __repr__(self) -> str:
                return "empty"

        self.all = {each.__name__: each for each in (Point, Counter, Plain, Event, Poll, Empty)}

    def __getattr__(self, name: str) -> Any:
        return self.all[name]


OURS, THEIRS = Made(dataclass), Made(dataclasses.dataclass)


@dataclass(frozen=True, slots=True)
class Kept:
    """In a module, so that it can be pickled."""

    a: int
    b: tuple[int, ...] = ()


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except TypeError as error:
        return type(error)


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "repr": lambda m: repr(m.Point(1)),
    "own repr": lambda m: repr(m.Empty()),
    "repr of a subclass": lambda m: repr(m.Poll(partition=3)),
    "equal": lambda m: m.Point(1) == m.Point(1, 2, []),
    "different": lambda m: m.Point(1) == m.Point(2),
    "of another class": lambda m: m.Point(1) == m.Counter(1),
    "without eq": lambda m: m.Plain() == m.Plain(),
    "hash": lambda m: hash(m.Empty()) == hash(m.Empty()),
    "hash of a mutable one": lambda m: outcome(lambda: hash(m.Counter())),
    "hash of a list": lambda m: outcome(lambda: hash(m.Point(1))),
    "hash without eq": lambda m: isinstance(hash(m.Plain()), int),
    "missing": lambda m: outcome(m.Point),
    "too many": lambda m: outcome(lambda: m.Counter(1, 2)),
    "unknown": lambda m: outcome(lambda: m.Point(1, z=2)),
    "keywords only": lambda m: outcome(lambda: m.Poll(3)),
    "inherited": lambda m: (m.Poll(partition=3, deadline=4).deadline, m.Poll(partition=3).twice()),
    "factory": lambda m: m.Poll(partition=3).future is not m.Poll(partition=3).future,
    "not in init": lambda m: (m.Counter(3).total, m.Plain().made),
    "class variable": lambda m: (m.Point.kind, m.Point(1).kind),
    "slots": lambda m: (m.Point.__slots__, m.Poll.__slots__, hasattr(m.Point(1), "__dict__")),
    "match": lambda m: (m.Point.__match_args__, m.Poll.__match_args__),
    "doc": lambda m: m.Point.__doc__,
    "names": lambda m: (m.Point.__name__, m.Point.__qualname__, m.Point.__module__),
    "signature": lambda m: [*inspect.signature(m.Point).parameters],
    "annotations": lambda m: m.Point.__init__.__annotations__,
    "fields": lambda m: [(each.name, each.type, each.repr) for each in dataclasses.fields(m.Poll)],
    "replace": lambda m: repr(dataclasses.replace(m.Poll(partition=3), partition=4)),
    "astuple": lambda m: dataclasses.astuple(m.Point(1)),
    "is one": lambda m: (dataclasses.is_dataclass(m.Point), dataclasses.is_dataclass(m.Plain())),
    "frozen": lambda m: [each.__dataclass_params__.frozen for each in m.all.values()],
    "copy": lambda m: copy.copy(m.Point(1)) == m.Point(1),
    "deepcopy": lambda m: repr(copy.deepcopy(m.Poll(partition=3, future=[1]))),
    "generic": lambda m: repr(m.Event[int]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_that_of_the_standard_library(name: str) -> None:
    assert QUESTIONS[name](OURS) == QUESTIONS[name](THEIRS)


@pytest.mark.parametrize("made", [OURS, THEIRS], ids=["ours", "theirs"])
def test_a_frozen_one_cannot_be_changed(made: Made) -> None:
    point = made.Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert point.x == 1


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_the_standard_librarys_can_derive_from_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class Derived(OURS.Point):  # type: ignore[misc, name-defined]
        z: int = 3

    assert Derived(1) == Derived(1, 2, [], "s", 3)


def test_one_without_slots_is_refused() -> None:
    with pytest.raises(TypeError, match="without slots"):

        @dataclass(slots=False)
        class Point:
            x: int
