"""What a notebook shows of a value that is the last line of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from tandem_kafka.foreign_text import visible
from tandem_kafka.types import TopicPartition


def batch_as_html(batch: Mapping[TopicPartition, Sequence[Any]]) -> str:
    """Return a table of partitions, without the records, of which there may be hundreds."""
    count = sum(map(len, batch.values()))
    rows = (
        (f"{tp.topic}-{tp.partition}", records[0].offset, records[-1].offset, len(records))
        for tp, records in batch.items()
        if records
    )
    return f"<p>{count:,} records</p>{_table(('partition', 'first', 'last', 'count'), rows)}"


def health_as_html(health: Any) -> str:
    """Return the state of a consumer, why it is so, and a table of its partitions."""
    group = f", group {health.group_id!r}" if health.group_id is not None else ""
    reasons = dict.fromkeys((*health.not_ready, *health.troubles))
    rows = (
        (f"{tp.topic}-{tp.partition}", each.position, each.lag, _notes(each))
        for tp, each in health.partitions.items()
    )
    return "".join(
        [
            f"<p><b>{_text(f'{health.client_id}{group}: {health.state}')}</b></p>",
            f"<ul>{''.join(f'<li>{_text(each)}</li>' for each in reasons)}</ul>",
            _table(("partition", "position", "lag", ""), rows),
        ]
    )


def _notes(partition: Any) -> str:
    return "; ".join(filter(None, ("paused" if partition.paused else "", partition.stuck)))


def _text(text: str) -> str:
    """Return HTML that shows a text, also what has no shape: U+202E would turn the rest around."""
    return escape(visible(text))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Iterable[object]) -> str:
    shown = ("unknown" if cell is None else _text(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{each}</{tag}>' for each in shown)}</tr>"
