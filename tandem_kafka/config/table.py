"""The options as a Markdown table, for the documentation."""

from __future__ import annotations

import dataclasses

from tandem_kafka.config.option import option_of
from tandem_kafka.config.options import Config

__all__ = ["option_table"]

_INTRODUCTION = """\
# Options

Names and defaults are those of kafka-python 3; the Java client's names work with underscores for
dots. An unknown option is an error. What kafka-python takes is taken; `options-parity.md` says
where that is not so, and why. Options without use under the chosen `security_protocol` are not
looked at, and logged. Times may have fractions and be infinite (24 days). 0 and None stand for
False, and 1 for True; words are taken in any case.
"""


def option_table() -> str:
    """Return the page docs/reference/options.md."""
    lines = [_INTRODUCTION, "| Option | Default | Allowed | Meaning |", "|---|---|---|---|"]
    default = Config()
    for spec in dataclasses.fields(Config):
        known = option_of(spec)
        shown = known.shown_default or repr(getattr(default, spec.name))
        lines.append(
            f"| `{spec.name}` | `{shown}` | {_cell(known.check.allowed)} | {_cell(known.doc)} |"
        )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
