"""docs/reference/errors.md explains every error, and quotes their texts as they are."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tandem_kafka import errors
from tests.unit.messages import ROOT, texts

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

PAGE: Final = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")


def test_every_public_error_is_on_the_page():
    explained = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)
    public = set(errors.__all__) - {"acl_command", "for_code", "reason_of"}  # functions
    assert len(explained) == len(set(explained))
    assert set(explained) == public
    assert "for_code" in PAGE


def test_the_quoted_texts_are_those_of_the_code():
    quoted = re.findall(r"^```text\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(quoted) > 10
    assert set(quoted) - texts() == set()
