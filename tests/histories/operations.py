"""The operations of a history; times are seconds of a clock that all processes share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

#: What became of a record: a producer without a response does not know.
Outcome = Literal["acknowledged", "aborted", "unknown"]


@dataclass(frozen=True, slots=True)
class Produced:
    """A producer has sent a value that no other record has.

    Attributes:
        end: When the outcome was known.
        offset: None if it is not known.
    """

    producer: str
    begin: float
    end: float
    partition: int
    value: str
    outcome: Outcome
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """A call has returned records: partition, offset and value of each, in their order."""

    consumer: str
    begin: float
    end: float
    records: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A consumer owns partitions from now on, and reads from its committed offsets or a reset."""

    consumer: str
    at: float
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """A consumer no longer owns partitions.

    Attributes:
        certain: Whether it has owned them until now. A member that was expelled, paused or killed
            may have lost them before.
    """

    consumer: str
    at: float
    partitions: tuple[int, ...]
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Sought:
    """A consumer reads a partition from another offset on."""

    consumer: str
    at: float
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit of a consumer has succeeded: partition and offset of each."""

    consumer: str
    begin: float
    end: float
    offsets: tuple[tuple[int, int], ...]


Operation: TypeAlias = Produced | Polled | Assigned | Released | Sought | Committed


def moment(operation: Operation) -> float:
    """Return when an operation has ended."""
    match operation:
        case Assigned(at=at) | Released(at=at) | Sought(at=at):
            return at
        case Produced(end=end) | Polled(end=end) | Committed(end=end):
            return end


_KINDS: Final = {
    kind.__name__: kind for kind in (Produced, Polled, Assigned, Released, Sought, Committed)
}


def to_lines(history: Iterable[Operation]) -> Iterator[str]:
    """Return each operation as a line of JSON."""
    for operation in history:
        yield json.dumps({"kind": type(operation).__name__, **asdict(operation)})


def from_lines(lines: Iterable[str]) -> list[Operation]:
    """Return the operations of lines of JSON."""
    history: list[Operation] = []
    for line in lines:
        fields: dict[str, Any] = json.loads(line)
        kind = _KINDS[fields.pop("kind")]
        history.append(kind(**{name: _frozen(value) for name, value in fields.items()}))
    return history


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value
