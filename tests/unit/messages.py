"""The texts of the packages, found in their source: messages of errors and lines of the log."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.sources import ROOT, modules

__all__ = ["ROOT", "logged", "texts"]

#: Stands for a value in a text.
VALUE: Final = "…"
#: Where a line of the log has a value.
_PLACE: Final = re.compile(r"%[-+ #0]*[\d,]*(?:\.\d+)?[sdrf]")


def texts() -> set[str]:
    """Return every text in the packages, with `…` in place of each value."""
    found = set()
    for module in _modules():
        for node in ast.walk(module):
            text = _text(node)
            if text:
                found.add(text)
    return found


def logged(levels: tuple[str, ...]) -> set[str]:
    """Return the lines that the packages log with one of the levels."""
    found = set()
    for module in _modules():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and _logs(node.func, (*levels, "log")):
                # `log.log` has the level in front.
                line = node.args[1] if _logs(node.func, ("log",)) else node.args[0]
                text = _text(line)
                assert text is not None, ast.unparse(node)
                found.add(_PLACE.sub(VALUE, text))
    return found


def _modules() -> Iterator[ast.Module]:
    for path in modules():
        yield ast.parse(path.read_text(encoding="utf-8"))


def _logs(function: ast.expr, levels: tuple[str, ...]) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in levels
        and isinstance(function.value, ast.Name)
        and function.value.id == "log"
    )


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or VALUE for part in node.values)
    return None
