"""`make pipeline`: what it produces, what must come of it, and what makes it fail."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.compare import compare, written_again
from pipeline.encoding import customer_value, encoder, reason
from pipeline.figures import UNKNOWN, DeadLetter, Expected, Found, Total, expect
from pipeline.lag import lag_over_time, largest_lag
from pipeline.orders import (
    BROKEN,
    DELAY_MS,
    PER_BATCH_SHARE,
    SPAN_MS,
    WINDOW_MS,
    Customer,
    Entry,
    Kind,
    Order,
    customers,
    entries,
)
from pipeline.progress import Batch, Progress

COUNT = 5_000
BEGIN_MS = 1_700_002_800_000
MINUTE_MS = 60_000


def produced(seed: int = 16) -> list[Entry]:
    return list(entries(COUNT, seed, BEGIN_MS))


def test_a_seed_gives_the_same_orders() -> None:
    assert produced() == produced()
    assert produced(1) != produced(2)
    assert customers(1) == customers(1)
    assert customers(1) != customers(2)


def test_all_kinds_of_orders_occur() -> None:
    kinds = Counter(entry.kind for entry in produced())
    assert set(kinds) == set(Kind)
    assert kinds.total() - kinds[Kind.COPY] - kinds[Kind.CLOSING] == COUNT
    assert kinds[Kind.CLOSING] == 1


def test_a_duplicate_follows_its_original() -> None:
    seen: dict[int, Order] = {}
    for entry in produced():
        if entry.kind is Kind.COPY:
            assert seen[entry.order.id] == entry.order
        else:
            assert entry.order.id not in seen
            seen[entry.order.id] = entry.order


def test_late_orders_are_clearly_within_the_watermark_or_clearly_beyond_it() -> None:
    newest_ms, batches = 0, 0.0
    for entry in produced():
        late_ms = newest_ms - entry.order.at_ms
        batches += 1 / (COUNT * PER_BATCH_SHARE)
        if entry.kind is Kind.TOO_LATE:
            # Spark drops what the watermark of the batch before excludes: two are needed.
            assert batches > 3.9
            assert entry.order.at_ms < BEGIN_MS - DELAY_MS
        elif entry.kind is not Kind.CLOSING:
            assert late_ms <= DELAY_MS - 10 * MINUTE_MS
        newest_ms = max(newest_ms, entry.order.at_ms)


def test_the_last_order_makes_every_other_window_final() -> None:
    *others, closing = produced()
    final_ms = closing.order.at_ms - DELAY_MS
    newest_ms = max(each.order.at_ms for each in others if each.kind not in BROKEN)
    assert newest_ms < BEGIN_MS + SPAN_MS
    assert newest_ms // WINDOW_MS * WINDOW_MS + WINDOW_MS <= final_ms
    assert closing.order.at_ms // WINDOW_MS * WINDOW_MS + WINDOW_MS > final_ms


def test_the_expected_figures_of_a_few_orders() -> None:
    at_ms = BEGIN_MS + 1
    first, other = Order(1, "a", 100, at_ms), Order(2, "b", 30, at_ms + WINDOW_MS)
    orders = [
        Entry(Kind.ON_TIME, first),
        Entry(Kind.ON_TIME, other),
        Entry(Kind.COPY, first),
        Entry(Kind.LATE, Order(3, "a", 7, at_ms)),
        Entry(Kind.ON_TIME, Order(4, "gone", 11, at_ms)),
        Entry(Kind.TOO_LATE, Order(5, "a", 1_000, at_ms - 10 * DELAY_MS)),
        Entry(Kind.WORTHLESS, Order(6, "a", 9, at_ms)),
        Entry(Kind.CLOSING, Order(7, "a", 1, at_ms + DELAY_MS + 2 * WINDOW_MS)),
    ]
    people = [
        Customer("a", "AT"),
        Customer("b", "CH"),
        Customer("gone", "FR"),
        Customer("a", "DE"),
        Customer("gone", None),
    ]
    found = expect(orders, people, encoder("json", 0), "json")
    assert {number: row.country for number, row in found.rows.items()} == {
        1: "DE",
        2: "CH",
        3: "DE",
        4: UNKNOWN,
        7: "DE",
    }
    assert found.totals == {
        (BEGIN_MS, "DE"): Total(2, 107),
        (BEGIN_MS, UNKNOWN): Total(1, 11),
        (BEGIN_MS + WINDOW_MS, "CH"): Total(1, 30),
    }
    assert set(found.dead_letters) == {"6"}
    assert found.dead_letters["6"].reason == "cents is not positive"
    assert json.loads(found.dead_letters["6"].value)["cents"] == -9


ORDER = Order(1, "c01", 250, BEGIN_MS)


def test_broken_orders_as_json() -> None:
    encode = encoder("json", 0)
    good = json.loads(encode(Entry(Kind.ON_TIME, ORDER)))
    assert good == {"id": 1, "customer": "c01", "cents": 250, "at_ms": BEGIN_MS}
    with pytest.raises(json.JSONDecodeError):
        json.loads(encode(Entry(Kind.CUT_OFF, ORDER)))
    assert "customer" not in json.loads(encode(Entry(Kind.INCOMPLETE, ORDER)))
    assert json.loads(encode(Entry(Kind.WRONG_TYPE, ORDER)))["cents"] == "much"
    assert len({reason(kind, "json") for kind in BROKEN}) == len(BROKEN)


def test_broken_orders_as_avro() -> None:
    fastavro = pytest.importorskip("fastavro")
    assert fastavro.__name__ == "fastavro"
    encode = encoder("avro", 7)
    good = encode(Entry(Kind.ON_TIME, ORDER))
    assert good[:5] == b"\0\0\0\0\7"
    assert encode(Entry(Kind.CUT_OFF, ORDER)) == good[:-5]
    assert encode(Entry(Kind.INCOMPLETE, ORDER))[5:] == good[5:]
    assert encode(Entry(Kind.INCOMPLETE, ORDER))[:5] != good[:5]
    assert encode(Entry(Kind.WRONG_TYPE, ORDER))[:1] == b"{"


def test_a_deleted_customer_is_a_tombstone() -> None:
    assert customer_value(Customer("a", None)) is None
    assert json.loads(customer_value(Customer("a", "AT")) or b"") == {"country": "AT"}


# What makes it fail


def outcome() -> tuple[Expected, Found]:
    """Return what is expected, and what a job that works leaves behind."""
    orders = produced()
    expected = expect(orders, customers(16), encoder("json", 0), "json")
    found = Found(
        len(orders),
        list(expected.rows.items()),
        list(expected.totals.items()),
        list(expected.dead_letters.items()),
    )
    return expected, found


def wrong(expected: Expected, found: Found) -> set[str]:
    return {line.name.strip() for line in compare(expected, found) if not line.agrees}


def test_correct_results_agree() -> None:
    expected, found = outcome()
    assert not wrong(expected, found)
    assert {"duplicates dropped", "too late, dropped"} < {
        line.name for line in compare(expected, found) if line.expected
    }


def test_duplicates_of_the_sink_agree_and_are_counted() -> None:
    expected, found = outcome()
    found.totals += found.totals[:3]
    found.dead_letters += found.dead_letters[:2]
    assert not wrong(expected, found)
    assert written_again(found.totals) == 3
    assert written_again(found.dead_letters) == 2


def lost_row(_: Expected, found: Found) -> None:
    found.rows.pop()


def doubled_row(_: Expected, found: Found) -> None:
    found.rows.append(found.rows[0])


def late_row(expected: Expected, found: Found) -> None:
    _, row = found.rows[0]
    found.rows.append((min(expected.ids[Kind.TOO_LATE]), row))


def changed_total(_: Expected, found: Found) -> None:
    key, total = found.totals[0]
    found.totals[0] = (key, Total(total.orders, total.cents + 1))


def another_total_of_the_same_window(_: Expected, found: Found) -> None:
    key, total = found.totals[0]
    found.totals.insert(0, (key, Total(total.orders - 1, total.cents)))


def lost_dead_letter(_: Expected, found: Found) -> None:
    del found.dead_letters[0]


def changed_dead_letter(_: Expected, found: Found) -> None:
    key, letter = found.dead_letters[0]
    found.dead_letters[0] = (key, DeadLetter(letter.value + b" ", letter.reason))


def lost_record(_: Expected, found: Found) -> None:
    found.records -= 1


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lost_row, {"orders in Parquet", "rows that differ"}),
        (doubled_row, {"orders in Parquet", "duplicates dropped"}),
        (late_row, {"orders in Parquet", "too late, dropped", "rows that differ"}),
        (changed_total, {"cents in them", "totals that differ"}),
        (another_total_of_the_same_window, {"totals that differ"}),
        (lost_dead_letter, {"letters that differ"}),
        (changed_dead_letter, {"letters that differ"}),
        (lost_record, {"records of the orders' topic"}),
    ],
)
def test_a_difference_is_found(spoil: Callable[[Expected, Found], None], names: set[str]) -> None:
    expected, found = outcome()
    spoil(expected, found)
    assert names <= wrong(expected, found)


# Progress and lag


def line(name: str, second: int, end: int, **more: object) -> str:
    said = {
        "name": name,
        "timestamp": f"2026-01-05T10:00:{second:02}.500Z",
        "durationMs": {"triggerExecution": 500},
        "sources": [
            {
                "numInputRows": 5,
                "endOffset": {"orders": {"0": end, "1": 1}, "begin of orders": {"0": 0}},
            }
        ],
        **more,
    }
    return json.dumps(said) + "\n"


def test_progress_follows_a_file_that_grows(tmp_path: Path) -> None:
    progress, path = Progress("orders"), tmp_path / "progress.jsonl"
    progress.update(path)
    assert progress.position("totals") == 0
    whole = line("totals", 1, 4, eventTime={"watermark": "1970-01-01T00:00:02.000Z"})
    path.write_text(whole + line("totals", 2, 9)[:20])
    progress.update(path)
    assert progress.position("totals") == 5
    assert progress.watermark_ms("totals") == 2_000
    path.write_text(whole + line("totals", 2, 9))
    progress.update(path)
    progress.update(path)
    first, second = progress.batches["totals"]
    assert second.position == 10
    assert second.end_s - first.end_s == 1
    assert (first.rows, first.duration_s) == (5, 0.5)


def test_the_lag_is_the_number_of_unprocessed_orders() -> None:
    written = [(0.0, 0), (1.0, 10), (2.0, 20), (3.0, 30)]
    batches = [Batch(1.5, 1, 8, 8, 0), Batch(4.0, 1, 22, 30, 0)]
    assert lag_over_time(written, batches) == [(0.0, 0), (1.0, 10), (2.0, 12), (3.0, 22), (4.0, 0)]
    assert largest_lag(written, batches) == 22
    assert largest_lag(written, []) == 0
