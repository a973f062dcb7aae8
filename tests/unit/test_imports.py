"""The names of the package, which are imported on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tandem_kafka

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", tandem_kafka.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(tandem_kafka, name) is not None
    assert name in dir(tandem_kafka)


def test_other_names_cannot_be_imported() -> None:
    with pytest.raises(AttributeError, match="module 'tandem_kafka' has no attribute 'Consumer'"):
        _ = tandem_kafka.Consumer  # type: ignore[attr-defined]


def test_unused_modules_are_not_imported() -> None:
    """Spark starts processes for a query that only need the source."""
    code = "import sys, tandem_kafka; print(sorted({'kafka', 'ssl', 'pyarrow'} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert result.stdout.strip() == "[]"
