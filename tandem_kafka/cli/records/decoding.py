"""Decodes Avro keys and values to JSON text, before records are filtered and printed."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from tandem_kafka.cli.failures import CommandError
from tandem_kafka.cli.records.filters import Filters

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka.types import ArrowDecoder, ConsumerRecord

    Record: TypeAlias = ConsumerRecord[Any, Any]

_PARTS: Final = ("key", "value")
_FLAGS: Final = (
    click.option(
        "-s", "--decode", "decode", metavar="PART=avro", multiple=True,
        help="Decode key=avro or value=avro to JSON; avro for both.",
    ),
    click.option("-r", "--registry", metavar="URL", help="The schema registry of their ids."),
    click.option(
        "--schema", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The Avro schema to read values as; without -r, that of bare values.",
    ),
)  # fmt: skip


def decoded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that decode. It stands below `filtered`, and sets `decode` of its filters."""

    @functools.wraps(command)
    def with_decoding(
        decode: tuple[str, ...],
        registry: str | None,
        schema: Path | None,
        filters: Filters,
        **given: Any,
    ) -> Any:
        parts = _parts(decode)
        if parts:
            as_json = functools.partial(_as_json, _decoders(parts, registry, schema))
            filters = replace(filters, decode=as_json)
        elif registry is not None or schema is not None:
            raise CommandError("-r and --schema need -s value=avro", usage=True)
        return command(filters=filters, **given)

    for flag in reversed(_FLAGS):
        with_decoding = flag(with_decoding)
    return with_decoding


def _parts(given: Sequence[str]) -> list[str]:
    """Return `key` and `value`, if they are to be decoded."""
    parts: set[str] = set()
    for each in given:
        part, _, kind = each.rpartition("=")
        if kind != "avro" or part not in {"", *_PARTS}:
            raise CommandError(f"-s {each}: write key=avro, value=avro or avro", usage=True)
        parts |= {part} if part else {*_PARTS}
    return sorted(parts)


def _decoders(
    parts: Sequence[str], registry: str | None, schema: Path | None
) -> dict[str, ArrowDecoder]:
    if registry is None and schema is None:
        raise CommandError("-s needs -r URL of a schema registry, or --schema FILE", usage=True)
    if schema is not None and len(parts) > 1:
        raise CommandError("--schema is for one part: choose -s key=avro or value=avro", usage=True)
    try:
        text = None if schema is None else schema.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"--schema {schema} is no JSON in UTF-8: {error}", usage=True) from None
    try:
        client = None if registry is None else _client(registry)
        from tandem_kafka.arrow import Avro
    except ImportError as error:
        raise CommandError(
            f"-s avro: {error}; pip install 'confluent-kafka[schemaregistry]' 'tandem-kafka[arrow]'"
        ) from None
    return {part: Avro(text, registry=client) for part in parts}


def _client(registry: str) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    try:
        return SchemaRegistryClient({"url": registry})
    except ValueError as error:
        raise CommandError(f"-r {registry}: {error}", usage=True) from None


def _as_json(decoders: dict[str, ArrowDecoder], records: Sequence[Record]) -> Sequence[Record]:
    """Return records with the JSON of what their keys or values contain.

    Raises:
        CommandError: One of them cannot be decoded.
    """
    import pyarrow as pa

    for part, decoder in decoders.items():
        column = pa.array([getattr(record, part) for record in records], pa.binary())
        decoded, failures = decoder.decode(column)
        for row, reason in failures:
            record = records[row]
            raise CommandError(
                f"the {part} of {record.topic}-{record.partition} at offset {record.offset} is no "
                f"such Avro: {reason}"
            )
        fields: list[dict[str, Any]] = [
            {part: _text(record, part, content)}
            for record, content in zip(records, decoded, strict=True)
        ]
        records = [
            record._replace(**changed) for record, changed in zip(records, fields, strict=True)
        ]
    return records


def _text(record: Record, part: str, decoded: pa.Scalar) -> bytes | None:
    from tandem_kafka.cli.records.jsonlines import json_value

    try:
        content = _with_objects(decoded.as_py(), decoded.type)
    except (OverflowError, ValueError) as error:
        # Avro has times beyond the years of Python.
        raise CommandError(
            f"the {part} of {record.topic}-{record.partition} at offset {record.offset} has a time "
            f"that cannot be shown: {error}"
        ) from None
    if content is None:
        return None
    return json.dumps(json_value(content), ensure_ascii=False, default=str).encode()


def _with_objects(content: Any, kind: pa.DataType) -> Any:
    """Return a value whose maps, which pyarrow makes lists of pairs, are dicts."""
    import pyarrow as pa

    if content is None:
        return None
    if pa.types.is_map(kind):
        return {key: _with_objects(each, kind.item_type) for key, each in content}
    if pa.types.is_struct(kind):
        return {each.name: _with_objects(content[each.name], each.type) for each in kind}
    if pa.types.is_list(kind):
        return [_with_objects(each, kind.value_type) for each in content]
    return content
