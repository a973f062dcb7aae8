"""Share groups under many faults at once; `python -m tests.scenarios` runs more seeds."""

from __future__ import annotations

import pytest

from tests.scenarios import SCENARIOS, run_seed
from tests.scenarios.runner import silence
from tests.tier import seeds


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "kind", [each.name for each in SCENARIOS.values() if each.shares and not each.soak]
)
def test_each_record_is_done_or_delivered_often_enough(kind: str, seed: int) -> None:
    with silence():
        outcome = run_seed(seed, kind)
    assert not outcome.error
    assert outcome.events > 50


@pytest.mark.parametrize("seed", seeds(1, 12))
@pytest.mark.parametrize("kind", [each.name for each in SCENARIOS.values() if each.soak])
def test_records_are_handled_once_by_slow_applications_and_never_lost_unseen(
    kind: str, seed: int
) -> None:
    with silence():
        outcome = run_seed(seed, kind)
    assert not outcome.error
    assert outcome.account["records"] > 50
