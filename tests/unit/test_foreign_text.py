"""Texts from outside: no secret in any form, no control characters, not long."""

from __future__ import annotations

import base64
import gc
import json
import logging
import traceback
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, quote_plus

import pytest

from tandem_kafka.foreign_text import Secret, SentSecrets, visible
from tandem_kafka.logs import ClientNames, LinesOf, client_logger

SECRET: Final = 'Hunter+2/ä"x'
FORMS: Final[dict[str, Callable[[str], str]]] = {
    "itself": str,
    "quoted": quote,
    "quoted wholly": lambda text: quote(text, safe=""),
    "of a form": quote_plus,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "repr": lambda text: repr(text)[1:-1],
    "JSON of others": lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("/", r"\/"),
    "bytes": lambda text: repr(text.encode())[2:-1],
    "quoted twice": lambda text: quote(quote(text, safe=""), safe=""),
    "markup": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "XML": lambda text: text.replace('"', "&amp;quot;"),
    "a program": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "a shell": lambda text: text.replace('"', '"\\""'),
    "doubled": lambda text: text.replace('"', '""'),
    "JSON in base64": lambda text: base64.b64encode(json.dumps([text]).encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "PLAIN": lambda text: base64.b64encode(f"\0ada\0{text}".encode()).decode(),
    "Basic": lambda text: base64.b64encode(f"ad:{text}".encode()).decode(),
    "for URLs": lambda text: base64.urlsafe_b64encode(f"a{text}".encode()).decode(),
    "a form in base64": lambda text: base64.b64encode(f"x={quote_plus(text)}".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["readable", "line"])
def test_a_secret_is_hidden_in_each_form(form: str, method: str) -> None:
    secrets, text = SentSecrets(Secret(SECRET)), FORMS[form](SECRET)
    given = f"wrong: {text}, sorry"
    shown = secrets.line(given) if method == "line" else secrets.readable(Secret(given))
    assert shown == "wrong: <hidden>, sorry"


@pytest.mark.parametrize(
    "text",
    ["that's  my\\Secret", "that's\n my\\Secret", "that''s+my\\\\Secret", "that&apos;s my\\Secret"],
)
def test_a_secret_with_spaces_is_hidden_however_they_are_written(text: str) -> None:
    """Spaces were folded after the secret had been looked for."""
    secrets = SentSecrets(Secret("that's my\\Secret"))
    assert secrets.readable(Secret(f"wrong: {text}, sorry")) == "wrong: <hidden>, sorry"


@pytest.mark.parametrize("secret", ["\\\\", "'" * 3, "   ", "+", "\\'+ '"])
def test_a_secret_of_marks_alone_hides_nothing_else(secret: str) -> None:
    assert SentSecrets(Secret(secret)).readable(Secret("it's a + b")) == "it's a + b".replace(
        secret, "<hidden>"
    )


def test_a_word_is_hidden_in_texts_of_a_peer_only() -> None:
    """Lines of ours have the word, so hiding it there would tell it."""
    secrets = SentSecrets(Secret("kafka"), Secret("pass1"))
    assert secrets.line("tandem-kafka connects to kafka-1") == "tandem-kafka connects to kafka-1"
    assert secrets.readable(Secret("no kafka or pass1")) == "no <hidden> or <hidden>"


def test_older_secrets_are_hidden_too_up_to_a_number() -> None:
    secrets = SentSecrets(*(Secret(f"Token-{number:04}") for number in range(20)))
    assert secrets.line("Token-0019 Token-0012 Token-0011") == "<hidden> <hidden> Token-0011"


def test_what_acts_on_a_terminal_is_visible() -> None:
    text = "a\r\n\x1b[2J\x9b\x85\x7f\u202e\u2028\u200bb"
    assert visible(text, keep="") == r"a\r\n\x1b[2J\x9b\x85\x7f\u202e\u2028\u200bb"
    assert SentSecrets().line(text) == visible(text, keep="")


def test_texts_are_short() -> None:
    assert len(SentSecrets().readable(Secret("x " * 10_000))) <= 300
    assert SentSecrets().line("y" * 5_000) == f"{'y' * 500}..."


def test_a_line_of_the_log_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    names, log = ClientNames("app"), client_logger("tandem_kafka.tests")
    names.secrets.add(Secret(SECRET))
    names.member_id = f"m\n{SECRET}"
    with LinesOf(names):
        log.warning("member %s: %d", names.member_id, 7)
        log.warning("failed", exc_info=ValueError(f"bad {SECRET}\x1b[2J"))
    first, second = caplog.records
    assert first.getMessage() == r"[app] member m\n<hidden>: 7"
    assert first.__dict__["member_id"] == r"m\n<hidden>"
    shown = logging.Formatter().format(second)
    assert shown == "[app] failed\n" + r"ValueError: bad <hidden>\x1b[2J"


def test_a_clean_line_keeps_its_arguments(caplog: pytest.LogCaptureFixture) -> None:
    """Tools group lines by their templates."""
    with LinesOf(ClientNames("app")):
        client_logger("tandem_kafka.tests").warning("broker %d", 7)
    assert (caplog.records[0].msg, caplog.records[0].args) == ("[%s] broker %d", ("app", 7))


def test_an_error_is_cleaned_with_its_causes() -> None:
    secrets, error = SentSecrets(Secret(SECRET)), KeyError("outer")
    error.__cause__ = ValueError(f"inner {SECRET}\n2026 ERROR forged", {SECRET})
    secrets.clean(error)
    shown = "".join(traceback.format_exception(error))
    assert SECRET not in shown
    assert "inner <hidden>\\\\n2026" in shown
    assert error.__cause__.args[1] == {"<hidden>"}


def test_a_memory_profiler_breaks_no_error() -> None:
    """It references each object while the arguments of an error are made."""
    found: list[object] = []

    class Profiled(SentSecrets):
        def line(self, text: str, keep: str = "") -> str:
            found.append(gc.get_objects())
            return super().line(text, keep)

    error = ValueError("one", "two\n")
    Profiled().clean(error)
    assert error.args == ("one", "two\\n")
    assert len(found) == 2
