"""Decodes keys and values of a topic, to Arrow columns or to JSON text. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tandem_kafka.errors import InvalidArgumentError, SchemaRegistryError
from tandem_kafka.foreign_text import Secret
from tandem_kafka.tables.objects import as_object
from tandem_kafka.tables.storage import Storage, storage
from tandem_kafka.types import ArrowDecoder, ConsumerRecord, DecodeErrors
from tandem_kafka_cli.failures import SENT_SECRETS, CommandError
from tandem_kafka_cli.records.jsonlines import json_value

Record: TypeAlias = ConsumerRecord[Any, Any]
#: Says which record a row is.
Place: TypeAlias = Callable[[int], str]

#: The schema of JSON is that of so many records, or of those of so many bytes.
SAMPLE: Final = 10_000
_SAMPLE_BYTES: Final = 16 << 20
#: What comes before the content: a byte, and the id of the schema or its GUID.
_FRAMES: Final = {0: 5, 1: 17}
_NAMES: Final = {"avro": "Avro", "json": "JSON", "protobuf": "Protobuf"}
#: What reads the types of schemas that a registry has.
_FLAG_OF: Final = {
    "AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf:MESSAGE with --schema FILE",
}  # fmt: skip
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
#: What is printed.
_TEXT: Final = storage("JSON lines")
#: What a document of JSON usually begins with.
_OPENINGS: Final = (b"{", b"[")
_AS_TEXT: Final = "without -s, it is text: value ->> '$.field' in SQL"


class Registry(NamedTuple):
    """A client of a schema registry, and its address without a login."""

    url: str
    client: Any

    def kind(self, schema_id: int) -> str | None:
        """Return the type of a schema; None if the registry does not tell it."""
        with suppress(Exception):  # the error is about something else
            return getattr(self.client.get_schema(schema_id), "schema_type", None) or "AVRO"
        return None

    def explained(self, error: SchemaRegistryError) -> CommandError:
        """Return the error of a command for one of the registry, with advice of our own."""
        advice = f"check -r {self.url}, and that a schema registry runs there"
        if getattr(error.__cause__, "http_status_code", None) in _REFUSED:
            advice = (
                f"for {self.url}, set TANDEM_KAFKA_REGISTRY_LOGIN to USER:PASSWORD of a user who "
                "may read schemas"
            )
        told = str(error).removeprefix("SchemaRegistryError: ").rsplit("; ", maxsplit=2)[0]
        return CommandError(f"{SENT_SECRETS.hidden(Secret(told))}; {advice}")


class Problem(NamedTuple):
    """Why there is nothing to show of what a record contains.

    Attributes:
        reason: The reason.
        decoded: Whether it could be decoded, and has a value without a place in the output.
    """

    reason: str
    decoded: bool = False


Problems: TypeAlias = dict[int, Problem]


class Messages:
    """Decodes messages with and without the id of a schema before them; asks no registry.

    No message begins with such a byte, as no field has the number 0.

    Args:
        make: Makes a decoder, given whether an id comes before the messages.
    """

    errors: DecodeErrors = "raise"
    flatten = False

    def __init__(self, make: Callable[[bool], Any]) -> None:
        self._bare, self._framed = make(False), make(True)
        self.schema: pa.DataType = self._bare.schema

    def decode(self, column: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why."""
        framed = _are_framed(column)
        bare, failed = self._bare.decode(pc.if_else(framed, None, column))
        others, failures = self._framed.decode(pc.if_else(framed, column, None))
        return pc.if_else(framed, others, bare), [*failed, *failures]


class Part:
    """Decodes the keys or the values of a topic.

    Args:
        name: ``key`` or ``value``.
        kind: ``avro``, ``json`` or ``protobuf``.
        make: Makes a decoder.
        registry: Where it asks for schemas; None if it does not.
        by_writer: Whether text has the fields that its own schema has, not those of the first.

    Raises:
        InvalidArgumentError: There can be no such decoder.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        make: Callable[[], ArrowDecoder],
        registry: Registry | None,
        *,
        by_writer: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self._make = make
        self._registry = registry
        self._by_writer = by_writer
        self._decoder: Any = make()
        #: By the first bytes of what they decode.
        self._of_writers: dict[bytes, Any] = {}

    def type(self, stored: Storage | None) -> pa.DataType:
        """Return the type of the column; null if no record has told it, or if it is left out."""
        found: pa.DataType | None = self._decoder.schema
        if stored is not None:
            found = stored.type_of(found, self.name)
        return pa.null() if found is None else found

    def column(
        self, contents: pa.Array, place: Place, stored: Storage | None
    ) -> tuple[pa.Array, Problems]:
        """Return the decoded column as it is stored, and why rows have none.

        Raises:
            CommandError: No row can be decoded: the registry does not answer, for example.
        """
        try:
            column, problems = self._decoded(self._decoder, contents)
            unplaced: Sequence[tuple[int, str]] = ()
            if stored is not None:
                column, unplaced = stored.column(column, self.name)
        except InvalidArgumentError as error:
            topic = place(0).partition(" ")[0].rpartition("-")[0]
            reason = reason_of(error).removesuffix(": give a schema")
            advice = _AS_TEXT if self.kind == "json" else "--schema FILE names another schema"
            raise CommandError(
                f"the {self.name}s of {topic} cannot be decoded: {reason}; {advice}"
            ) from None
        return column, problems | _unplaced(unplaced)

    def texts(self, contents: Sequence[bytes | None]) -> tuple[list[bytes | None], Problems]:
        """Return the JSON of contents, and why rows have none.

        Raises:
            CommandError: No row can be decoded.
        """
        if self.kind == "json":
            return [_bare_json(content) for content in contents], {}
        groups: dict[bytes, list[int]] = {}
        for row, content in enumerate(contents):
            prefix = (content or b"")[: _FRAMES[0]] if self._by_writer else b""
            groups.setdefault(prefix, []).append(row)
        texts: list[bytes | None] = [None] * len(contents)
        failed: Problems = {}
        for prefix, rows in groups.items():
            decoder = self._of_writers.get(prefix) or self._make()
            group = pa.array([contents[row] for row in rows], pa.binary())
            try:
                column, failures = self._decoded(decoder, group)
                shown, unplaced = self.shown(column)
            except InvalidArgumentError as error:
                # One of several schemas; the records of the others can be printed.
                reason = reason_of(error).removeprefix("the first record has ")
                failed |= dict.fromkeys(rows, Problem(reason))
                continue
            failed |= {rows[row]: problem for row, problem in (failures | unplaced).items()}
            if len(failures) < len(rows):
                # Not of what is no Avro: it may begin with anything.
                self._of_writers[prefix] = decoder
            for row, text in zip(rows, shown, strict=True):
                texts[row] = text
        return texts, failed

    def shown(self, column: pa.Array) -> tuple[list[bytes | None], Problems]:
        """Return the JSON of a decoded column, and why rows have none."""
        stored, unplaced = _TEXT.column(column, self.name)
        objects = (as_object(each, stored.type) for each in stored.to_pylist())
        texts = [
            None
            if each is None
            else json.dumps(json_value(each), ensure_ascii=False, default=str).encode()
            for each in objects
        ]
        return texts, _unplaced(unplaced)

    def error(self, content: bytes, place: str, problem: Problem) -> CommandError:
        """Return the error for a record that cannot be decoded or shown."""
        if problem.decoded:
            return CommandError(
                f"the {self.name} of {place} has no place in the output: {problem.reason}; "
                "-E leaves such records out"
            )
        return self._undecodable(content, place, problem.reason)

    def _undecodable(self, content: bytes, place: str, reason: str) -> CommandError:
        advice = ""
        framed = content[:1] in {b"\0", b"\1"}
        if self.kind == "json":
            advice = f"{_AS_TEXT}; "
        elif content[:1] in _OPENINGS:
            advice = f"if it is JSON, write -s {self.name}=json; "
        elif self._registry is None:
            if framed:
                advice = "if a serializer with a schema registry wrote it, add -r URL; "
        elif not framed:
            advice = "without -r, --schema FILE reads what has no schema id; "
        elif content[:1] == b"\0":
            schema_id = int.from_bytes(content[1 : _FRAMES[0]], "big")
            kind = self._registry.kind(schema_id)
            if kind in _FLAG_OF and kind != self.kind.upper():
                reason = f"its schema {schema_id} is of type {kind}"
                advice = f"write -s {self.name}={_FLAG_OF[kind]}; "
        return CommandError(
            f"the {self.name} of {place} is no such {_NAMES[self.kind]}: {reason}; {advice}"
            "-E leaves such records out"
        )

    def _decoded(self, decoder: ArrowDecoder, contents: pa.Array) -> tuple[pa.Array, Problems]:
        try:
            decoded, failures = decoder.decode(contents)
        except SchemaRegistryError as error:
            if self._registry is None:
                raise
            raise self._registry.explained(error) from error
        return decoded, {row: Problem(reason) for row, reason in failures}


class Decoded:
    """Decodes the records of one topic.

    Args:
        parts: The decoders of keys and values.
        skip: Leave out records that cannot be decoded.

    Attributes:
        skipped: How many were left out.
    """

    def __init__(self, parts: Sequence[Part], *, skip: bool) -> None:
        self._parts = parts
        self._skip = skip
        self.skipped = 0

    def types(self, stored: Storage | None) -> dict[str, pa.DataType]:
        """Return the types of the decoded columns as they are stored; see `Part.type`."""
        return {part.name: part.type(stored) for part in self._parts}

    def records(self, records: Sequence[Record]) -> tuple[Sequence[Record], CommandError | None]:
        """Return records with the JSON of what their keys or values contain.

        Returns:
            The records, up to the first that cannot be decoded, and the error for that one.

        Raises:
            CommandError: None can be decoded: the registry does not answer, for example.
        """

        def place(row: int) -> str:
            record = records[row]
            return f"{record.topic}-{record.partition} at offset {record.offset}"

        changed: dict[str, list[Any]] = {}
        left_out: set[int] = set()
        errors: dict[int, CommandError] = {}
        for part in self._parts:
            contents = [getattr(record, part.name) for record in records]
            changed[part.name], failed = part.texts(contents)
            left_out |= {*failed}
            if failed and not self._skip:
                row = min(failed)
                errors.setdefault(row, part.error(contents[row], place(row), failed[row]))
        end = min(errors, default=len(records))
        self.skipped += len(left_out) if self._skip else 0
        return [
            record._replace(**{name: texts[row] for name, texts in changed.items()})
            for row, record in enumerate(records[:end])
            if row not in left_out
        ], errors.get(end)

    def batches(
        self, batches: Iterator[pa.RecordBatch], stored: Storage | None
    ) -> Iterator[tuple[pa.RecordBatch, dict[str, pa.Array]]]:
        """Yield batches, each with its decoded columns as they are stored.

        Raises:
            CommandError: A record cannot be decoded.
        """
        for read in self._sampled(batches, stored):
            batch = read
            place = _place_in(batch)
            columns: dict[str, pa.Array] = {}
            left_out: set[int] = set()
            for part in self._parts:
                columns[part.name], failed = part.column(batch[part.name], place, stored)
                self._check(part, failed, place, batch[part.name])
                left_out |= {*failed}
            if left_out:
                self.skipped += len(left_out)
                kept = pa.array([row not in left_out for row in range(batch.num_rows)])
                batch = batch.filter(kept)
                columns = {name: column.filter(kept) for name, column in columns.items()}
            yield batch, columns

    def texts(
        self, batch: pa.RecordBatch, columns: dict[str, pa.Array], name: str
    ) -> list[bytes | None]:
        """Return the text of the keys or values of a decoded batch, as filters search it."""
        part = next((part for part in self._parts if part.name == name), None)
        if part is None or part.kind == "json":
            return [_bare_json(each) if part else each for each in batch[name].to_pylist()]
        texts, unplaced = part.shown(columns[name])
        for row, problem in unplaced.items():
            raise part.error(b"", _place_in(batch)(row), problem)
        return texts

    def _check(self, part: Part, failed: Problems, place: Place, contents: pa.Array) -> None:
        if failed and not self._skip:
            row = min(failed)
            raise part.error(contents[row].as_py(), place(row), failed[row])

    def _sampled(
        self, batches: Iterator[pa.RecordBatch], stored: Storage | None
    ) -> Iterator[pa.RecordBatch]:
        """Hold batches back until JSON has a schema: one batch may be of one partition only."""
        inferred = [part for part in self._parts if part.kind == "json"]
        held: list[pa.RecordBatch] = []
        rows = size = 0
        while inferred and rows < SAMPLE and size < _SAMPLE_BYTES:
            batch = next(batches, None)
            if batch is None:
                break
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        for part in inferred:
            if held:
                sample = pa.concat_arrays([each[part.name] for each in held])
                part.column(sample, _place_in(held[0]), stored)
        yield from chain(held, batches)


def _unplaced(failures: Sequence[tuple[int, str]]) -> Problems:
    return {row: Problem(reason, decoded=True) for row, reason in failures}


def _place_in(batch: pa.RecordBatch) -> Place:
    def place(row: int) -> str:
        topic, partition, offset = (batch[name][row] for name in ("topic", "partition", "offset"))
        return f"{topic}-{partition} at offset {offset}"

    return place


def reason_of(error: InvalidArgumentError) -> str:
    """Return the text without the names of classes before it."""
    return str(error).removeprefix(f"{type(error).__name__}: ").split(": ", maxsplit=1)[-1]


def _bare_json(content: bytes | None) -> bytes | None:
    """Return a document without the id of its schema."""
    return content[_FRAMES.get(content[0], 0) :] if content else content


def _are_framed(contents: pa.Array) -> pa.Array:
    first = [pc.starts_with(contents, pattern=bytes([each])) for each in _FRAMES]
    return pc.or_(*first)
