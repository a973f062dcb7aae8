"""The code blocks of the manual, and how a comment before a block says to run it."""

from __future__ import annotations

import builtins
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
#: Pages, by their paths below the root.
PAGES: Final = [
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
    "README.md",
    "examples/README.md",
    "examples/pipeline/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("packages/*/README.md")),
]

#: `<!-- run: broker -->` or `<!-- run: no, it needs Docker -->` on the last line before a block.
_DIRECTIVE: Final = re.compile(r"<!-- run: (?P<kind>[a-z]+)(?:, (?P<reason>.+))? -->")
#: `<!-- file: reader.py -->`: shell blocks that follow find the block in this file.
_FILE: Final = re.compile(r"<!-- file: (?P<name>\S+) -->")
_FENCE: Final = re.compile(r"(?P<indent> *)(?P<ticks>```+)(?P<language>[\w{}-]*)")
#: How a block runs: with a simulated cluster, a real broker, a Spark job, or pytest;
#: in a shell until it ends, or as a server for the blocks after it.
KINDS: Final = ("simulated", "broker", "spark", "pytest", "sh", "server", "no")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: The page's path below the root.
        line: The line of the page on which its code begins, counted from 1.
        language: The word after the opening fence: `python`, `sh`.
        code: The text between the fences.
        kind: One of `KINDS`.
        reason: Why the block does not run, if it does not.
        file: The name under which the block is saved, if the page asks for it.
    """

    page: str
    line: int
    language: str
    code: str
    kind: str
    reason: str | None
    file: str | None


def undefined(code: str) -> set[str]:
    """Returns the names that a program uses without importing, assigning or defining them."""
    module = symtable.symtable(code, "block", "exec")
    defined = {each.get_name() for each in module.get_symbols() if _is_defined(each)}
    used = {each.get_name() for each in module.get_symbols() if each.is_referenced()}
    inner = module.get_children()
    while inner:
        table = inner.pop()
        used |= {each.get_name() for each in table.get_symbols() if each.is_global()}
        inner += table.get_children()
    return used - defined - {*dir(builtins), "__name__", "__file__"}


def _is_defined(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def blocks(page: str, *languages: str) -> list[Block]:
    """Returns the blocks of a page in some languages, in their order; without one, in Python."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    return [block for block in _all(page, lines) if block.language in (languages or ("python",))]


def _all(page: str, lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        opening = _FENCE.fullmatch(lines[number])
        if opening is None:
            number += 1
            continue
        end = lines.index(opening["indent"] + opening["ticks"], number + 1)
        indent = len(opening["indent"])
        code = "\n".join(line[indent:] for line in lines[number + 1 : end]) + "\n"
        above = next((line.strip() for line in reversed(lines[:number]) if line.strip()), "")
        kind, reason = _directive(page, above, number)
        file = _FILE.fullmatch(above)
        name = file["name"] if file else None
        yield Block(page, number + 2, opening["language"], code, kind, reason, name)
        number = end + 1


def _directive(page: str, above: str, fence: int) -> tuple[str, str | None]:
    found = _DIRECTIVE.fullmatch(above)
    if found is None:
        return "simulated", None
    if found["kind"] not in KINDS or (found["kind"] == "no" and not found["reason"]):
        raise ValueError(f"{page}:{fence}: {above}: give one of {KINDS}, and 'no' with a reason")
    return found["kind"], found["reason"]
