"""Checks the prose that people read: `python -m tests.prose`; the rules are in docs/writing.md."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.sources import PACKAGES, ROOT

#: Words that the field has better ones for.
REPLACED: Final = {
    r"\blook-ups?\b": "lookup",
    r"\blog-ins?\b": "login",
    r"\bback-offs?\b": "backoff",
    r"\btime-outs?\b": "timeout",
    r"\btwins?\b": "implementation, native extension",
    r"\blast words\b": "final requests",
    r"\bbe it that\b": "even if, whether",
    r"\bstirred\b": "woken, changed",
    r"\bhurried\b": "expedited",
    r"\bnewcomers?\b": "new member",
    r"\bwhoever\b": "name the subject",
    r"\bhas to be gone\b": "must be consumed",
    r"\bis refused then\b": "is rejected",
}
#: Words in a sentence of the docs. The rule says 25; code and numbers make some longer.
LIMIT: Final = 30

PAGES: Final = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "docs", "examples"),
    *(str(each.relative_to(ROOT)) for each in sorted(ROOT.glob("packages/*/README.md"))),
)
#: Pages that quote what they forbid.
EXEMPT: Final = {"docs/writing.md"}
CODE: Final = (
    *(str(each.relative_to(ROOT)) for each in PACKAGES),
    *("examples", "packages/spark/pipeline", "benchmarks", "release", "tests"),
)

_CODE_BLOCK: Final = re.compile(r"^( *)(`{3,}|:{3,}).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE_SPAN: Final = re.compile(r"(`+).+?\1", re.DOTALL)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
#: Stands for code in a sentence; a list of names is not a long sentence.
_CODE: Final = "CODE"
#: Between sentences and list items.
_END: Final = re.compile(r"(?<=[.!?:;])[\")*]*\s+|\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")


class Fault(NamedTuple):
    """One place to mend."""

    path: str
    line: int
    problem: str


def main() -> int:
    """Check all; returns the exit code."""
    faults = [*_of_pages(), *_of_code()]
    for path, line, problem in faults:
        print(f"{path}:{line}: {problem}")
    print(
        f"{len(faults)} places to mend; see docs/writing.md" if faults else "prose: nothing found"
    )
    return 1 if faults else 0


def _of_pages() -> Iterator[Fault]:
    for path in _files(PAGES, "*.md"):
        name = path.relative_to(ROOT).as_posix()
        if name in EXEMPT:
            continue
        text = path.read_text(encoding="utf-8")
        yield from _replaced_words(name, 1, _blank(_CODE_BLOCK, text))
        yield from _long_sentences(name, text)


def _of_code() -> Iterator[Fault]:
    for path in _files(CODE, "*.py"):
        if path.parent == Path(__file__).parent:
            continue
        name = path.relative_to(ROOT).as_posix()
        for line, text in _prose_of(path.read_text(encoding="utf-8")):
            yield from _replaced_words(name, line, text)


def _files(roots: tuple[str, ...], pattern: str) -> Iterator[Path]:
    for root in roots:
        path = ROOT / root
        yield from sorted(path.rglob(pattern)) if path.is_dir() else [path]


def _prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Yields comments and strings of more than one word, with their first lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _replaced_words(name: str, first: int, text: str) -> Iterator[Fault]:
    for pattern, better in REPLACED.items():
        for found in re.finditer(pattern, text, re.IGNORECASE):
            line = first + text.count("\n", 0, found.start())
            yield Fault(name, line, f"{found[0]!r}: write {better}")


def _long_sentences(name: str, text: str) -> Iterator[Fault]:
    text = _blank(_COMMENT, _blank(_CODE_BLOCK, text))
    text = re.sub(r"^\s*\|.*$|^#.*$", "", text, flags=re.MULTILINE)
    text = _LINK.sub(r"\1", _CODE_SPAN.sub(_as_one_word, text))
    begin = 0
    for end in [*_END.finditer(text), None]:
        sentence = text[begin : end.start() if end else len(text)]
        words = len(re.findall(rf"\b(?!{_CODE}\b)[\w'-]+", sentence))
        if words > LIMIT:
            line = text.count("\n", 0, begin) + 1
            yield Fault(name, line, f"{words} words: {' '.join(sentence.split())[:70]} ...")
        begin = end.end() if end else begin


def _as_one_word(found: re.Match[str]) -> str:
    return _CODE + "\n" * found[0].count("\n")


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Removes what a pattern matches, and keeps the lines."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


if __name__ == "__main__":
    sys.exit(main())
