"""The options as a Markdown table, for the documentation."""

from __future__ import annotations

import dataclasses

from tandem_kafka.config.config import Config
from tandem_kafka.config.option import option_of

_INTRODUCTION = """\
# Options

All keyword arguments of `KafkaConsumer`, with their defaults. This page is made from the code.

- Names and defaults are kafka-python's. [Three defaults differ](../coming-from/kafka-python.md).
  Options of the Java client have the same names, with underscores in place of dots.
- An unknown option raises `KafkaConfigurationError`. Almost every value that kafka-python accepts
  is accepted; [the exceptions have reasons](options-parity.md).
- An option that has no effect with the chosen `security_protocol` is not checked. The log names it.
- Times in milliseconds may be fractions, or infinite (24 days).
- For True and False, 1, 0 and None are accepted. Words are accepted in upper and lower case.
"""


def option_table() -> str:
    """Return the page docs/reference/options.md."""
    lines = [_INTRODUCTION, "| Option | Default | Allowed | Meaning |", "|---|---|---|---|"]
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
