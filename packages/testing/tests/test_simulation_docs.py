"""docs/explained/simulation.md names tests and faults: they exist, and no fault is missing."""

from __future__ import annotations

import re

from tests.scenarios.faults import Faults
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "explained" / "simulation.md").read_text(encoding="utf-8")


def test_every_named_test_file_exists() -> None:
    files = {path.name for path in ROOT.glob("tests/**/test_*.py")}
    named = set(re.findall(r"`(?:tests/[\w/]*/)?(test_\w+\.py)`", PAGE))
    assert len(named) > 10
    assert named <= files


def test_every_fault_is_on_the_page() -> None:
    kinds = {name for name in vars(Faults) if not name.startswith("_")}
    kinds -= {"draw_conditions", "cause_one", "heal", "reunite"}
    assert not {kind for kind in kinds if f"`{kind}`" not in PAGE}
