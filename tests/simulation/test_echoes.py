"""Whatever a broker repeats: no text of ours has a secret or a control character of a response.

Each field of each response is tried that is a text or bytes, by the message classes (see
tests/answers/echoes.py); the ids of the tests tell how many there are.
"""

from __future__ import annotations

import pytest

from tandem_kafka.foreign_text import SentSecrets
from tests.answers.echoes import Echo, echoes, fields, printed
from tests.answers.table import ROWS, Row


def _failures(row: Row, *, every: bool) -> list[str]:
    """Return the fields that were not sent, and those that are printed, with an example of each."""
    unsent, shown = {f"{row.name}.{'.'.join(path)} was not sent" for path in fields(row)}, {}
    for echo in echoes(row, every=every):
        sent, found = printed(echo)
        if sent:
            unsent.discard(f"{echo.field} was not sent")
        for each in found:
            shown.setdefault((echo.field, each.partition(":")[0]), f"{echo}: {each[:1_000]!r}")
    return [*unsent, *shown.values()]


_RESPONSES = [
    pytest.param(row, id=f"{row.name} ({len(fields(row))} fields)") for row in ROWS if fields(row)
]


@pytest.mark.parametrize("row", _RESPONSES)
def test_no_field_of_a_response_is_printed_with_a_secret_or_control_characters(row: Row) -> None:
    assert not _failures(row, every=False)


@pytest.mark.full("more of the same")
@pytest.mark.parametrize("row", _RESPONSES)
def test_no_field_is_printed_by_any_consumer_with_any_error(row: Row) -> None:
    assert not _failures(row, every=True)


def test_what_is_printed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above fail if nothing is cleaned."""
    monkeypatch.setattr(SentSecrets, "readable", lambda _, text: text.reveal())
    monkeypatch.setattr(SentSecrets, "line", lambda _, text, keep="": text)  # noqa: ARG005
    row = next(row for row in ROWS if row.name == "SaslAuthenticate")
    echo = Echo(row, ("error_message",), "text", 58, "classic")
    found = {each.partition(":")[0] for each in printed(echo)[1]}
    assert found >= {"log", "raised", "health", "diagnose", "probe"}
