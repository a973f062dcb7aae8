"""The flags that decode keys and values, and what they stand for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import click

from tandem_kafka.foreign_text import LOGIN, Secret
from tandem_kafka_cli.environment import current
from tandem_kafka_cli.failures import SENT_SECRETS, CommandError
from tandem_kafka_cli.output import counted
from tandem_kafka_cli.records.filters import Filters

if TYPE_CHECKING:
    from tandem_kafka.errors import InvalidArgumentError
    from tandem_kafka.types import ArrowDecoder
    from tandem_kafka_cli.records.decoded import Decoded, Part, Registry

_PARTS: Final = ("key", "value")
_KINDS: Final = ("avro", "json", "protobuf")
#: As USER:PASSWORD, without a password in the process list.
_REGISTRY_LOGIN: Final = "TANDEM_KAFKA_REGISTRY_LOGIN"
#: How long a registry that is down is asked again.
PATIENCE_MS: Final = 5_000
#: How long it may take for one answer.
ANSWER_S: Final = 10
_INSTALL: Final = "pip install 'confluent-kafka[schemaregistry]' 'tandem-kafka[arrow]'"
_FLAGS: Final = (
    click.option(
        "-s", "--decode", "decode", metavar="[PART=]KIND", multiple=True,
        help="Decode value=avro, value=protobuf:MESSAGE or value=json, or the key; without PART, "
        "both. JSON has the fields of its first records in columns; printed, it stays as it is.",
    ),
    click.option(
        "-r", "--registry", metavar="URL",
        help="The schema registry, if they begin with the id of a schema. A login is in "
        "TANDEM_KAFKA_REGISTRY_LOGIN as USER:PASSWORD.",
    ),
    click.option(
        "--schema", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The Avro schema, or the descriptor set of protoc, to read them as.",
    ),
    click.option(
        "-E", "--skip-undecodable", "skip", is_flag=True,
        help="Leave out records that cannot be decoded, and say how many.",
    ),
)  # fmt: skip


class _Form(NamedTuple):
    """What a key or a value is, and the name of its message."""

    kind: str
    message: str | None


def decodes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that decode.

    The function gets them as `decoded_of`: returns a `Decoded` for one topic, None without `-s`.
    """

    @functools.wraps(command)
    def with_decoding(
        decode: tuple[str, ...], registry: str | None, schema: Path | None, skip: bool, **given: Any
    ) -> Any:
        forms = _forms(decode)
        if not forms and (registry is not None or schema is not None or skip):
            raise CommandError("-r, --schema and -E need -s, for example -s value=avro", usage=True)
        _check(forms, registry, schema)
        made: list[Decoded] = []

        def decoded_of() -> Decoded | None:
            if not forms:
                return None
            made.append(_decoded(forms, registry, schema, skip=skip))
            return made[-1]

        click.get_current_context().call_on_close(lambda: _tell(made))
        return command(decoded_of=decoded_of, **given)

    for flag in reversed(_FLAGS):
        with_decoding = flag(with_decoding)
    return with_decoding


def decoded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that decode. It stands below `filtered`, and sets `decoded` of its filters."""

    @functools.wraps(command)
    def with_filters(
        decoded_of: Callable[[], Decoded | None], filters: Filters, **given: Any
    ) -> Any:
        return command(filters=replace(filters, decoded=decoded_of()), **given)

    return decodes(with_filters)


def _tell(made: Sequence[Decoded]) -> None:
    skipped = sum(each.skipped for each in made)
    if skipped:
        click.echo(f"{counted(skipped, 'record')} could not be decoded, left out", err=True)


def _forms(given: Sequence[str]) -> dict[str, _Form]:
    """Return what is to be decoded, by `key` and `value`."""
    forms: dict[str, _Form] = {}
    for each in given:
        part, _, form = each.rpartition("=")
        kind, colon, message = form.partition(":")
        if kind not in _KINDS or part not in {"", *_PARTS} or (colon and kind != "protobuf"):
            raise CommandError(
                f"-s {each}: write value=avro, value=json, value=protobuf:MESSAGE, or key= for "
                "the key",
                usage=True,
            )
        if kind == "protobuf" and not message:
            raise CommandError(
                f"-s {each}: name the message, for example -s {each.rstrip(':')}:shop.Order",
                usage=True,
            )
        forms |= {name: _Form(kind, message or None) for name in ([part] if part else _PARTS)}
    return forms


def _check(forms: dict[str, _Form], registry: str | None, schema: Path | None) -> None:
    kinds = [form.kind for form in forms.values() if form.kind != "json"]
    if schema is not None and forms and not kinds:
        raise CommandError(
            "--schema is for avro and protobuf; JSON gets its fields from the first records",
            usage=True,
        )
    if schema is not None and len(kinds) > 1:
        raise CommandError("--schema is for one part: choose -s key= or -s value=", usage=True)
    if "protobuf" in kinds and schema is None:
        raise CommandError(
            "-s protobuf needs --schema FILE: protoc --include_imports --descriptor_set_out=FILE",
            usage=True,
        )
    if "avro" in kinds and registry is None and schema is None:
        raise CommandError(
            "-s avro needs -r URL of a schema registry, or --schema FILE", usage=True
        )


def _decoded(
    forms: dict[str, _Form], registry: str | None, schema: Path | None, *, skip: bool
) -> Decoded:
    try:
        from tandem_kafka_cli.records.decoded import Decoded

        asked = None if registry is None else _registry(registry)
        parts = [_part(name, form, asked, schema) for name, form in forms.items()]
    except ModuleNotFoundError as error:
        raise CommandError(f"-s: {error}; {_INSTALL}") from None
    except ImportError as error:
        raise CommandError(f"-s: {error}") from None
    return Decoded(parts, skip=skip)


def _part(name: str, form: _Form, asked: Registry | None, schema: Path | None) -> Part:
    from tandem_kafka.errors import InvalidArgumentError
    from tandem_kafka.tables import Avro, Json, Protobuf
    from tandem_kafka_cli.records.decoded import SAMPLE, Messages, Part

    if form.kind == "json":
        return Part(name, "json", lambda: Json.infer(SAMPLE), None)
    client = asked and asked.client
    make: Callable[[], ArrowDecoder]
    try:
        if schema is not None and form.kind == "protobuf":
            content = schema.read_bytes()
            message = functools.partial(
                Protobuf,
                content,
                form.message,
                unit="ns",
                struct_as_json=True,  # otherwise, a message with one cannot be read at all
                timeout_ms=PATIENCE_MS,
            )
            if client is None:
                make = functools.partial(Messages, lambda framed: message(confluent=framed))
            else:
                make = functools.partial(message, confluent=client)
        else:
            text = None if schema is None else schema.read_text(encoding="utf-8")
            make = functools.partial(Avro, text, registry=client, timeout_ms=PATIENCE_MS)
        return Part(name, form.kind, make, asked, by_writer=schema is None)
    except UnicodeDecodeError as error:
        raise CommandError(f"--schema {schema} is no JSON in UTF-8: {error}", usage=True) from None
    except InvalidArgumentError as error:
        raise CommandError(_wrong_file(schema, form, error), usage=True) from None


def _wrong_file(schema: Path | None, form: _Form, error: InvalidArgumentError) -> str:
    from tandem_kafka_cli.records.decoded import reason_of

    reason = reason_of(error)
    text = f"--schema {schema}: {reason}"
    if form.kind == "protobuf" and "FileDescriptorSet" in reason:
        return f"{text}; make it with protoc --include_imports --descriptor_set_out=FILE"
    if form.kind == "avro" and "not JSON" in reason:
        return f"{text}; give the file of an Avro schema, usually .avsc"
    return text


def _registry(url: str) -> Registry:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    from tandem_kafka_cli.records.decoded import Registry

    # Without a timeout, it would wait for ever. The decoders ask again.
    options: dict[str, Any] = {"url": url, "timeout": ANSWER_S, "max.retries": 0}
    login = current().variables.get(_REGISTRY_LOGIN)
    if login and "@" not in url:
        if ":" not in login:
            raise CommandError(f"{_REGISTRY_LOGIN}: write USER:PASSWORD", usage=True)
        options["basic.auth.user.info"] = login
    named = LOGIN.search(url)
    for each in (login or "", unquote(named[1]) if named else ""):
        SENT_SECRETS.add(Secret(each.partition(":")[2]))
    shown = LOGIN.sub("//", url)
    try:
        return Registry(shown, SchemaRegistryClient(options))
    except ValueError as error:
        reason = SENT_SECRETS.hidden(Secret(LOGIN.sub("//", str(error))))
        raise CommandError(
            f"-r {shown}: {reason}; write for example -r http://localhost:8081", usage=True
        ) from None
