"""Records as text: format strings, lines for people, dumps, JSON; and times."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.tables.times import duration_ms, time_ms
from tandem_kafka.types import ConsumerRecord
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import json_text
from tandem_kafka_cli.records.filters import Filters, compiled
from tandem_kafka_cli.records.formats import by_format, chosen, dumped
from tandem_kafka_cli.records.jsonlines import as_json, json_bytes
from tandem_kafka_cli.records.printing import write
from tandem_kafka_cli.times import shown_duration, shown_time

NOW_MS = 1_700_000_000_000


def record(**fields: Any) -> ConsumerRecord:
    given = {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("b", None)], **fields}
    return ConsumerRecord(
        topic="orders",
        partition=3,
        leader_epoch=0,
        offset=42,
        timestamp=given.pop("timestamp", NOW_MS),
        timestamp_type=0,
        checksum=None,
        serialized_key_size=-1,
        serialized_value_size=-1,
        serialized_header_size=-1,
        **given,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%k=%v", b"k=v"),
        ("%t:%p:%o %s\\n", b"orders:3:42 v\n"),
        ("%T %D", b"1700000000000 2023-11-14T22:13:20.000Z"),
        ("%h", b"a=1,b=NULL"),
        ("%K,%S,%R", b"1,1,\0\0\0\1"),
        ("100%%\\t\\x41\\\\", b"100%\tA\\"),
    ],
)
def test_a_format(text: str, expected: bytes) -> None:
    assert by_format(text)([record()]) == expected


def test_records_are_formatted_together() -> None:
    several = [record(value=b"1"), record(value=None), record(value=b"%d")]
    assert by_format("%o%% %v\\n")(several) == b"42% 1\n42% \n42% %d\n"
    assert by_format("\\x25\\n")(several) == b"%\n%\n%\n"
    assert by_format("%v")([]) == by_format("x")([]) == b""


def test_large_records_are_formatted_one_by_one() -> None:
    large = [record()._replace(serialized_value_size=600_000) for _ in range(2)]
    small = [record() for _ in range(500)]
    lengths: list[int] = []

    def formatter(records: Sequence[ConsumerRecord]) -> bytes:
        lengths.append(len(records))
        return b"x" * len(records)

    stream = io.BytesIO()
    assert write([*small, *large], formatter, stream) == 502
    assert (lengths, stream.getvalue()) == ([500, 1, 1], b"x" * 502)


def test_a_format_with_null() -> None:
    assert by_format("[%k|%v|%K|%S|%R]")([record(key=None, value=None)]) == (
        b"[||-1|-1|\xff\xff\xff\xff]"
    )


@pytest.mark.parametrize("text", ["%q", "\\q", "%"])
def test_an_unknown_field(text: str) -> None:
    with pytest.raises(CommandError, match="is unknown; allowed are %s %v"):
        by_format(text)


def test_a_line_for_people() -> None:
    line = chosen(None, json=False, hexadecimal=False, colours=False)
    assert line([record()]) == b"2023-11-14T22:13:20.000Z 3:42 k v\n"
    assert line([record(key=None, value=None, timestamp=-1)]) == b"- 3:42 - (tombstone)\n"


def test_a_record_cannot_control_the_terminal() -> None:
    for colours in (False, True):
        line = chosen(None, json=False, hexadecimal=False, colours=colours)
        shown = line([record(value="\x1b]0;t\x07\x9b2J\nü".encode() + b"\xff")])
        assert rb"\x1b]0;t\x07\x9b2J\n" + "ü".encode() + rb"\xff" in shown
        assert b"\x1b]" not in shown


HOSTILE = "\x1b]0;t\x07\x9b2J\u202e日本語\u2028"


def test_a_format_cannot_control_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = record(key=HOSTILE.encode(), value=f"1\t2\n{HOSTILE}".encode())
    raw = chosen("%k %v", json=False, hexadecimal=False, colours=False)
    assert raw([hostile]) == f"{HOSTILE} 1\t2\n{HOSTILE}".encode(), "a pipe gets the bytes"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    safe = chosen("%k %v", json=False, hexadecimal=False, colours=False)
    escaped = r"\x1b]0;t\x07\x9b2J\u202e日本語\u2028"
    assert safe([hostile]).decode() == f"{escaped} 1\t2\n{escaped}"
    assert safe([record(value=b"\xff")]).decode() == r"k \xff"


def test_json_has_no_character_without_a_shape() -> None:
    line = as_json([record(value=HOSTILE.encode())]).decode()
    assert line[:-1].isprintable()
    assert "日本語" in line
    assert json.loads(line)["value"] == HOSTILE


def test_a_line_for_people_shows_what_turns_the_direction_of_text() -> None:
    line = chosen(None, json=False, hexadecimal=False, colours=False)
    assert r"\u202e日本語\u2028" in line([record(value=HOSTILE.encode())]).decode()


def test_a_dump() -> None:
    assert dumped(record(value=bytes(range(60, 80)))).splitlines() == [
        "orders 3:42 2023-11-14T22:13:20.000Z",
        "  key: 1 bytes",
        "    00000000  6b                                               k",
        "  header a: 1 bytes",
        "    00000000  31                                               1",
        "  header b: null",
        "  value: 20 bytes",
        "    00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK",
        "    00000010  4c 4d 4e 4f                                      LMNO",
    ]


def test_json_keeps_every_byte() -> None:
    shown = json.loads(as_json([record(key=b"\xff\0", value="ü\n".encode(), timestamp=-1)]))
    assert shown == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": None,
        "key": {"base64": "/wA="},
        "value": "ü\n",
        "headers": [["a", "1"], ["b", None]],
    }


@given(
    topic=st.text(),
    key=st.none() | st.binary(),
    value=st.none() | st.binary() | st.text().map(str.encode),
    headers=st.lists(st.tuples(st.text(), st.none() | st.binary()), max_size=3),
    timestamp=st.integers(-1, 2**53),
)
def test_a_json_line_is_what_json_would_write(
    topic: str, key: bytes | None, value: bytes | None, headers: Any, timestamp: int
) -> None:
    one = record(key=key, value=value, headers=headers, timestamp=timestamp)
    fields = {
        "topic": topic,
        "partition": 3,
        "offset": 42,
        "timestamp": timestamp if timestamp >= 0 else None,
        "key": json_bytes(key),
        "value": json_bytes(value),
        "headers": [[name, json_bytes(content)] for name, content in headers],
    }
    assert as_json([one._replace(topic=topic)]).decode() == json_text(fields) + "\n"


def test_only_one_form_is_chosen() -> None:
    with pytest.raises(CommandError, match="choose one of -f, --json and --hex"):
        chosen("%k", json=True, hexadecimal=False, colours=False)


@pytest.mark.parametrize(
    ("filters", "accepted"),
    [
        (Filters(), True),
        (Filters(key=compiled("^k$", "")), True),
        (Filters(key=compiled("x", "")), False),
        (Filters(value=compiled("V", "", ignore_case=True)), True),
        (Filters(value=compiled(".", "", fixed=True)), False),
        (Filters(headers=[("a", compiled("", ""))]), True),
        (Filters(headers=[("a", compiled("2", ""))]), False),
        (Filters(headers=[("b", compiled("", ""))]), False),
        (Filters(key=compiled("k", ""), value=compiled("x", "")), False),
    ],
)
def test_filters(filters: Filters, accepted: bool) -> None:
    assert filters.accept(b"k", b"v", [("a", b"1"), ("b", None)]) is accepted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1500", 1500),
        ("90s", NOW_MS - 90_000),
        ("1.5h", NOW_MS - 5_400_000),
        ("2023-11-14T22:13:20", NOW_MS),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert time_ms(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "5 m", "5y"])
def test_wrong_times(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a time: write 15m"):
        time_ms(text, NOW_MS)
    with pytest.raises(InvalidArgumentError, match="is not a duration"):
        duration_ms(text)


def test_shown_times() -> None:
    assert shown_time(-1) == shown_time(2**62) == "-"
    assert [shown_duration(each) for each in (-5, 999, 61_000, 7_300_000, 10**9)] == [
        "0ms",
        "999ms",
        "1m",
        "2h",
        "11d",
    ]
