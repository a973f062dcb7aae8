"""The options of a consumer, with their defaults."""

from __future__ import annotations

import dataclasses

from tandem_kafka.config.config import Config
from tandem_kafka.config.option import option_of

__all__ = ["table"]


def table() -> str:
    """Return the table."""
    lines = ["| Option | Default | Allowed | Meaning |", "|---|---|---|---|"]
    default = Config()
    for spec in dataclasses.fields(Config):
        known = option_of(spec)
        shown = known.shown_default or repr(getattr(default, spec.name))
        meaning = f"{known.doc} New in {known.since}." if known.since else known.doc
        lines.append(
            f"| `{spec.name}` | `{shown}` | {_cell(known.check.allowed)} | {_cell(meaning)} |"
        )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
