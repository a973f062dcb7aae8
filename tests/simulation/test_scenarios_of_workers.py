"""A few seeds of the scenarios with workers; `.ci/run scenarios` runs more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios import SCENARIOS, run_seed
from tests.scenarios.runner import silence
from tests.tier import seeds

ROOT = Path(__file__).resolve().parents[2]
KINDS = [scenario.name for scenario in SCENARIOS.values() if scenario.workers]


@pytest.mark.parametrize("seed", seeds(2, 5))
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_skipped_or_marked_that_is_not_done(kind: str, seed: int) -> None:
    with silence():
        outcome = run_seed(seed, kind)
    assert not outcome.error
    assert outcome.events > 50


def test_a_member_without_a_coordinator_may_read_what_the_next_owner_has_committed() -> None:
    """It began before that, and its own commits are rejected, so it forgets nothing."""
    with silence():
        assert not run_seed(73_100_036, "workers").error


@pytest.mark.full("takes long")
def test_a_seed_gives_the_same_run_in_every_process() -> None:
    command = [sys.executable, "-m", "tests.scenarios", "replay", "5"]
    command += ["--scenario", "consumer-workers-transactions"]
    traces = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        traces.add(subprocess.check_output(command, cwd=ROOT, env=environment))
    assert len(traces) == 1
