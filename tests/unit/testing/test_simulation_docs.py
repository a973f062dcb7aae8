"""The pages about the simulation name tests, faults and scenarios: they exist."""

from __future__ import annotations

import re
from pathlib import Path

from tandem_kafka.testing.stories.faults import Faults

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "explained" / "simulation.md").read_text(encoding="utf-8")


def test_every_file_of_tests_that_the_page_names_exists() -> None:
    files = {path.name for path in ROOT.glob("tests/**/test_*.py")}
    named = set(re.findall(r"`(?:tests/[\w/]*/)?(test_\w+\.py)`", PAGE))
    assert len(named) > 10
    assert named <= files


def test_every_fault_is_on_the_page() -> None:
    kinds = {name for name in vars(Faults) if not name.startswith("_")}
    kinds -= {"weather", "happen", "heal", "reunite"}
    assert not {kind for kind in kinds if f"`{kind}`" not in PAGE}
