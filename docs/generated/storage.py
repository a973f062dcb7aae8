"""What each table and text stores for each type that a decoder can make."""

from __future__ import annotations

from tandem_kafka.tables.storage import KINDS, PLACES

__all__ = ["table"]


def table() -> str:
    """Return one row for each kind of type; places with the same column share one."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for number, place in enumerate(PLACES):
        columns.setdefault(tuple(words[number] for words in KINDS.values()), []).append(place)
    lines = ["| type | " + " | ".join(", ".join(places) for places in columns.values()) + " |"]
    lines.append("|---" * (1 + len(columns)) + "|")
    for row, kind in enumerate(KINDS):
        lines.append(f"| {kind} | " + " | ".join(words[row] for words in columns) + " |")
    return "\n".join(lines)
