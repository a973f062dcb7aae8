"""Documentation and types of the options agree."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import ssl
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from kafka.net.sasl import SASL_MECHANISMS

from docs.generated.options import table
from tandem_kafka import AsyncKafkaConsumer, AsyncShareConsumer, KafkaConsumer, ShareConsumer
from tandem_kafka.config import Config, ConsumerOptions
from tandem_kafka.config import typed as typed_options
from tandem_kafka.config.described import described
from tandem_kafka.config.option import option_of
from tandem_kafka.consumer.share.options import WITHOUT_MEANING

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

CONSUMERS = [KafkaConsumer, AsyncKafkaConsumer, ShareConsumer, AsyncShareConsumer]

#: Options that are taken in more forms than the one they are kept in.
WIDER = {"api_version", "bootstrap_servers", "consumer_timeout_ms", "bootstrap_timeout_ms"}
WIDER |= {"client_id", "group_id", "group_instance_id", "client_rack", "isolation_level"}
WIDER |= {"auto_offset_reset", "sasl_mechanism"}
WIDER |= {"ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile", "ssl_password"}
WIDER |= {"sasl_oauthbearer_cafile", "sasl_oauthbearer_extensions"}
WIDER |= {"sasl_oauthbearer_assertion_file", "sasl_oauthbearer_assertion_private_key_file"}
WIDER |= {"sasl_oauthbearer_assertion_private_key_passphrase"}


def test_the_table_shows_no_object():
    assert " object at 0x" not in table()


@pytest.mark.parametrize("kind", CONSUMERS)
def test_help_and_completion_know_every_option(kind: type):
    text = inspect.getdoc(kind) or ""
    assert text.startswith(("Reads records from a Kafka cluster", "A member of a share group"))
    assert re.search("^Options:$", text, re.MULTILINE)
    known = inspect.signature(kind).parameters
    for spec in dataclasses.fields(Config):
        taken = spec.name not in WITHOUT_MEANING or kind in {KafkaConsumer, AsyncKafkaConsumer}
        assert (f"\n    {spec.name}: " in text) is (spec.name in known) is taken
    assert inspect.signature(kind).bind("orders", legacy_iterator=True)  # a former name


def test_help_shows_a_default_as_the_documentation_does():
    text = " ".join((inspect.getdoc(KafkaConsumer) or "").split())
    shown = {spec.name: option_of(spec).shown_default for spec in dataclasses.fields(Config)}
    assert any(shown.values())
    for name, default in shown.items():
        if default is not None:
            assert f" Default: {default}." in text.partition(f" {name}: ")[2]
    assert " object at 0x" not in text


@pytest.mark.parametrize("kind", [ShareConsumer, AsyncShareConsumer])
def test_completion_knows_the_arguments_of_share_consumers(kind: type):
    own = ["topics", "acknowledgement", "renew", "max_processing_ms"]
    assert list(inspect.signature(kind).parameters)[: len(own)] == own


def test_the_layout_of_help_does_not_depend_on_the_indentation_of_the_docstring():
    """Python 3.13 removes it, and -OO removes all of it."""

    @described()
    class Dedented:
        """A consumer.

        Args:
            *topics: Topics.
        """

        def __init__(self, *topics: str, **options: object) -> None: ...

    @described()
    class Bare:
        def __init__(self, *topics: str, **options: object) -> None: ...

    assert "\nArgs:\n    *topics: Topics.\n\nOptions:\n    bootstrap_servers: " in Dedented.__doc__
    assert Bare.__doc__.startswith("Options:\n    bootstrap_servers: ")


@pytest.mark.parametrize("kind", CONSUMERS)
def test_a_subclass_has_its_own_signature(kind: Any):
    class Orders(kind):
        def __init__(self, region: str) -> None: ...

        def __del__(self) -> None: ...

    class Bills(kind):
        def __new__(cls, region: str) -> Any: ...

    assert list(inspect.signature(Orders).parameters) == ["region"]
    assert list(inspect.signature(Bills).parameters) == ["region"]


def test_the_typed_options_are_the_options():
    typed, kept = get_type_hints(ConsumerOptions), get_type_hints(Config, None, {"ssl": ssl})
    names = [spec.name for spec in dataclasses.fields(Config)]
    assert set(typed) == set(names)
    times = {name for name in names if typed[name] is float and kept[name] is int}
    assert times == {name for name in names if name.endswith("_ms")} - WIDER
    differing = {name for name in names if typed[name] != kept[name]} - times
    assert differing == WIDER
    assert not ConsumerOptions.__required_keys__


def test_each_typed_option_has_its_description():
    described: dict[str, str] = {}
    for each in ast.parse(Path(typed_options.__file__).read_text(encoding="utf-8")).body:
        for option, doc in itertools.pairwise(getattr(each, "body", ())):
            if isinstance(option, ast.AnnAssign) and isinstance(doc, ast.Expr):
                described[option.target.id] = inspect.cleandoc(doc.value.value)
    said = {spec.name: option_of(spec).doc for spec in dataclasses.fields(Config)}
    assert {name: " ".join(doc.split()) for name, doc in described.items()} == said


def test_the_literals_of_the_typed_options_are_allowed_values():
    typed, specs = get_type_hints(ConsumerOptions), dataclasses.fields(Config)
    for spec in specs:
        for word in words_of(typed[spec.name]):
            option_of(spec).check.parse(word)
    assert words_of(typed["sasl_mechanism"]) == set(SASL_MECHANISMS)


def words_of(hint: Any) -> set[Any]:
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {word for each in get_args(hint) for word in words_of(each)}


@pytest.mark.parametrize("spec", dataclasses.fields(Config), ids=lambda spec: spec.name)
def test_every_option_is_described(spec):
    known = option_of(spec)
    assert known.doc.endswith(".")
    if spec.name.endswith("_ms"):
        assert "illiseconds" in known.doc or "The same" in known.doc
    if "password" in spec.name:
        assert known.secret


def test_every_default_passes_its_own_check():
    for spec in dataclasses.fields(Config):
        if spec.name != "bootstrap_servers":  # converted to another form
            assert option_of(spec).check.parse(spec.default) == spec.default
