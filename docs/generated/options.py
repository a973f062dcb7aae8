"""The options of a consumer, with their defaults, in the groups of their class."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Final

from tandem_kafka.config.config import Config
from tandem_kafka.config.option import option_of
from tandem_kafka.config.options import Options

__all__ = ["table"]

#: A comment, or the name of an option.
_LINE: Final = re.compile(r"^    (?:# (?P<group>.+)\.|(?P<option>\w+): .*)$", re.MULTILINE)


def table() -> str:
    """Return a table for each group."""
    lines = []
    for group, names in _groups():
        lines += [
            f"## {group}",
            "",
            "| Option | Default | Allowed | Meaning |",
            "|---|---|---|---|",
        ]
        lines += [*map(_row, names), ""]
    return "\n".join(lines)


def _groups() -> Iterator[tuple[str, list[str]]]:
    options = {spec.name for spec in dataclasses.fields(Config)}
    group, names = "", list[str]()
    for line in _LINE.finditer(inspect.getsource(Options)):
        if line["group"]:
            if names:
                yield group, names
            group, names = line["group"], []
        elif line["option"] in options:
            names.append(line["option"])
    yield group, names


def _row(name: str) -> str:
    known = option_of(Config.__dataclass_fields__[name])
    shown = known.shown_default or repr(getattr(Config(), name))
    meaning = f"{known.doc} New in {known.since}." if known.since else known.doc
    # The anchor is in HTML: a heading for each of a hundred options would fill the contents.
    link = f'<a id="{name}" href="#{name}"><code>{name}</code></a>'
    return f"| {link} | `{shown}` | {_cell(known.check.allowed)} | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")
