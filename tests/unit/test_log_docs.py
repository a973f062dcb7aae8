"""docs/reference/log-messages.md explains every warning and error that the package logs."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.unit.messages import ROOT, logged

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

PAGE: Final = (ROOT / "docs" / "reference" / "log-messages.md").read_text(encoding="utf-8")


def test_the_page_has_every_warning_and_error_and_no_others():
    listed = re.findall(r"^\| `(.+?)` \|", PAGE, re.MULTILINE)
    found = logged(("warning", "error", "exception", "critical"))
    assert found - set(listed) == set(), "the page lacks these"
    assert set(listed) - found == set(), "nothing logs these"
    assert len(listed) == len(set(listed))
