"""Writes the pages that are made from the markers of the tests: `python -m tests.behaviours`."""

from __future__ import annotations

from tests.behaviours.markers import ROOT
from tests.behaviours.pages import pages

for path, text in pages().items():
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")
