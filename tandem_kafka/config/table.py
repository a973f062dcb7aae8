"""The options as a Markdown table, for the documentation."""

from __future__ import annotations

import dataclasses

from tandem_kafka.config.names import NOT_HONOURED
from tandem_kafka.config.option import option_of
from tandem_kafka.config.options import Config

__all__ = ["option_table"]

_INTRODUCTION = """\
# Options

Names and defaults are those of kafka-python 3; the Java client's names work with underscores for
dots. An unknown option is an error, and so is one that would have no effect here.
"""


def option_table() -> str:
    """Return the page docs/options.md."""
    lines = [_INTRODUCTION, "| Option | Default | Allowed | Meaning |", "|---|---|---|---|"]
    default = Config()
    for spec in dataclasses.fields(Config):
        known = option_of(spec)
        shown = known.shown_default or repr(getattr(default, spec.name))
        lines.append(
            f"| `{spec.name}` | `{shown}` | {_cell(known.check.allowed)} | {_cell(known.doc)} |"
        )
    lines += ["", "Not supported, and refused when given:", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in NOT_HONOURED.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
