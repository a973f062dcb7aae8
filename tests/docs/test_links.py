"""Links between pages lead to files and headings that exist, also on pages outside the manual."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.sources

_FOLDERS = ("docs", "examples", "benchmarks", "packages", "tests")
_PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("packages/*/*.md"),
        *(p for name in _FOLDERS for p in (ROOT / name).rglob("*.md")),
    ]
)
_FENCED = re.compile(r"^(```+).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r'\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"')
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@cache
def _text(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors of headings, as GitHub and MyST make them."""
    words = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", each) for each in _HEADING.findall(_text(page)))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in words}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", _text(page))
    for link in (first or second for first, second in _LINK.findall(text)):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link
