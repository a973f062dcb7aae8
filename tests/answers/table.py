"""The answers that stay, made from the message classes and the tables of reactions.

A request that `wire/` has and that has no row here is an error, so none is forgotten.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import kafka_errors

from tandem_kafka.errors import for_code
from tandem_kafka.request_managers import reactions
from tandem_kafka.request_managers.reactions import Table, reaction_to
from tandem_kafka.wire import messages

__all__ = [
    "NEVER_ASKED",
    "ROWS",
    "Answer",
    "Row",
    "answers_of",
    "codes_of",
    "paths",
    "reached",
    "request_names",
]

#: No release of Kafka has it.
UNKNOWN_CODE: Final = 9_999

_CLASSIC: Final = ("classic", "async classic")
_KIP848: Final = ("consumer", "async consumer")
_SHARE: Final = ("share", "async share")
_SUBSCRIBED: Final = (*_CLASSIC, *_KIP848)
_READERS: Final = ("assigned", *_SUBSCRIBED)
_ALL: Final = (*_READERS, *_SHARE)


@dataclass(frozen=True, slots=True)
class Row:
    """A request, and who sends it.

    Attributes:
        name: The API, as in `FetchRequest`.
        table: The reactions to its errors.
        askers: The kinds of consumers that send it (`consumers.py`).
        changes: Whether the broker changes something before it answers. One that answers an error
            for the whole request has changed nothing.
        needs: What `consumers.py` must provide, so that it is sent.
        later: Whether the gate also tries an answer that begins once the consumer reads.
    """

    name: str
    table: Table
    askers: Sequence[str]
    changes: bool = False
    needs: str = ""
    later: bool = False

    @property
    def request(self) -> Any:
        """The class of the request."""
        return getattr(messages, f"{self.name}Request")

    @property
    def response(self) -> Any:
        """The class of the response."""
        return getattr(messages, f"{self.name}Response")


ROWS: Final = (
    Row("ApiVersions", reactions.MEMBERSHIP, _ALL),
    Row("ConsumerGroupHeartbeat", reactions.GROUP_HEARTBEAT, _KIP848, changes=True),
    Row("Fetch", reactions.FETCH, _READERS),
    Row("FindCoordinator", reactions.COORDINATOR, _ALL),
    Row("GetTelemetrySubscriptions", reactions.MEMBERSHIP, _ALL, needs="telemetry"),
    Row("Heartbeat", reactions.MEMBERSHIP, _CLASSIC, changes=True),
    Row("JoinGroup", reactions.MEMBERSHIP, _CLASSIC, changes=True),
    Row("LeaveGroup", reactions.MEMBERSHIP, _CLASSIC, changes=True, needs="leaving"),
    Row("ListOffsets", reactions.LIST_OFFSETS, _READERS),
    Row("Metadata", reactions.FETCH, _ALL, later=True),
    Row("OffsetCommit", reactions.COMMIT, _READERS, changes=True),
    Row("OffsetFetch", reactions.OFFSET_FETCH, _READERS),
    Row("OffsetForLeaderEpoch", reactions.LIST_OFFSETS, _READERS, needs="elections"),
    Row("PushTelemetry", reactions.MEMBERSHIP, _ALL, needs="telemetry"),
    Row("SaslAuthenticate", reactions.MEMBERSHIP, _ALL, needs="login"),
    Row("SaslHandshake", reactions.MEMBERSHIP, _ALL, needs="login"),
    Row("ShareAcknowledge", reactions.FETCH, _SHARE, changes=True, needs="slow work"),
    Row("ShareFetch", reactions.FETCH, _SHARE, changes=True),
    Row("ShareGroupHeartbeat", reactions.GROUP_HEARTBEAT, _SHARE, changes=True),
    Row("SyncGroup", reactions.MEMBERSHIP, _CLASSIC, changes=True),
)

_COMMAND_LINE: Final = "the command line sends it once"
#: Requests without a row, and why.
NEVER_ASKED: Final = {
    "AlterShareGroupOffsets": _COMMAND_LINE,
    "DeleteShareGroupOffsets": _COMMAND_LINE,
    "DescribeShareGroupOffsets": _COMMAND_LINE,
    "ShareGroupDescribe": _COMMAND_LINE,
    "ConsumerGroupDescribe": "only a client-side assignor of KIP-848 sends it, which no broker has",
    "ConsumerGroupInstallAssignment": "as ConsumerGroupDescribe",
    "ConsumerGroupPrepareAssignment": "as ConsumerGroupDescribe",
}


def request_names() -> set[str]:
    """Return the names of all requests of this client."""
    return {name.removesuffix("Request") for name in dir(messages) if name.endswith("Request")}


# --- answers -----------------------------------------------------------------------------------

#: Changes a response of the broker.
Change = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is wrong with each response to a request.

    Attributes:
        name: What is wrong, for the id of a case.
        change: Makes it so.
        whole: Whether the request as a whole is refused, so that nothing else is in the response.
        code: The error code, 0 without one.
    """

    name: str
    change: Change
    whole: bool = False
    code: int = 0


def answers_of(row: Row, *, every: bool) -> Iterator[Answer]:
    """Return the answers to a request: all, or one of each kind."""
    codes = _every_code() if every else codes_of(row.table)
    for path in paths(row.response.fields, lambda name, _: name.endswith("error_code")):
        for code in codes:
            name = for_code(code).__name__.removesuffix("Error") if code != UNKNOWN_CODE else code
            yield Answer(
                f"{'.'.join(path)}={name}", _setter(path, code), whole=len(path) == 1, code=code
            )
    for path in paths(row.response.fields, lambda name, _: name.endswith("_ms")):
        for value in (0, 1, -1):
            yield Answer(f"{'.'.join(path)}={value}", _setter(path, value))
    for path in paths(row.response.fields, _is_number):
        yield Answer(f"{'.'.join(path)}=-1", _setter(path, -1))
    for path in paths(row.response.fields, lambda _, field: field.is_array()):
        yield Answer(f"{'.'.join(path)} empty", _setter(path, []))
    for path in paths(row.response.fields, lambda _, field: field.is_struct_array()):
        yield Answer(f"{'.'.join(path)} twice", _entries(path, _twice))
        yield Answer(f"{'.'.join(path)} in two", _entries(path, _in_two))


def _is_number(name: str, field: Any) -> bool:
    return field.type_str.startswith("int") and not name.endswith(("error_code", "_ms"))


def _every_code() -> list[int]:
    return [*sorted({code for code in kafka_errors if code}), UNKNOWN_CODE]


def codes_of(table: Table) -> list[int]:
    """Return one code of each class of reaction, of each default, and one unknown code."""
    found: dict[object, int] = {}
    for error in (*table, *kafka_errors.values()):
        code = getattr(error, "errno", 0)  # 0 or none: an error of the client
        if code and for_code(code) is error:
            found.setdefault((reaction_to(table, error), error in table), code)
    return [*found.values(), UNKNOWN_CODE]


def paths(
    fields: Any, wanted: Callable[[str, Any], bool], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Return the paths of the fields that are wanted, at every level of a message."""
    for name, field in fields.items():
        if wanted(name, field):
            yield (*path, name)
        if getattr(field, "fields", None):
            yield from paths(field.fields, wanted, (*path, name))


def reached(message: Any, path: Sequence[str], make: Any = None) -> Iterable[Any]:
    """Return the structures that have the last field of a path.

    Args:
        message: The response.
        path: The names of the fields.
        make: The fields of the response, if structures that it lacks are added to it.
    """
    found = [message]
    for name in path[:-1]:
        if make is not None:
            for each in found:
                if not getattr(each, name):
                    new = _made(make[name])
                    setattr(each, name, [new] if make[name].is_struct_array() else new)
            make = make[name].fields
        nested = [getattr(each, name) for each in found]
        found = []
        for each in nested:
            found += each if isinstance(each, list) else [each] if each is not None else []
    return found


def _made(field: Any) -> Any:
    """Return a structure with all of its own; lists of it are empty."""
    nested = {
        name: _made(each)
        for name, each in field.fields.items()
        if each.fields and not each.is_struct_array()
    }
    return field.data_class(**nested)


def _setter(path: Sequence[str], value: Any) -> Change:
    def change(message: Any) -> Any:
        for each in reached(message, path):
            setattr(each, path[-1], copy.copy(value))
        return message

    return change


def _entries(path: Sequence[str], change_of: Callable[[list[Any]], list[Any]]) -> Change:
    def change(message: Any) -> Any:
        for each in reached(message, path):
            entries = getattr(each, path[-1])
            if entries:
                setattr(each, path[-1], change_of(entries))
        return message

    return change


def _twice(entries: list[Any]) -> list[Any]:
    return [*entries, *entries]


def _in_two(entries: list[Any]) -> list[Any]:
    """Split each entry that has a list of partitions: a topic is in two entries."""
    found = []
    for each in entries:
        parts = getattr(each, "partitions", None)
        for part in [[one] for one in parts] if parts else [parts]:
            half = copy.copy(each)
            if parts:
                half.partitions = part
            found.append(half)
    return found
