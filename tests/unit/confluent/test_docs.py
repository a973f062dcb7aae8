"""The page that is generated from the properties and the list of differences is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.confluent_differences import page

#: It compares a page with the sources of the package.
pytestmark = pytest.mark.sources


def test_the_page_is_up_to_date() -> None:
    docs = Path(__file__).parents[3] / "docs"
    written = (docs / "coming-from" / "confluent-kafka.md").read_text("utf-8")
    assert written == page(), "run: python -m tests.parity.confluent_differences"
