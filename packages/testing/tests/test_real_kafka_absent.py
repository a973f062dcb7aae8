"""Where Kafka cannot be had, its tests are skipped in one line, or fail if that is wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem_kafka_testing.pytest_plugin import why_no_kafka
from tests.sources import ROOT

pytestmark = pytest.mark.real_time

pytest.importorskip("jgo")


def without_a_network(
    cache: Path, *paths: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the project's tests on a machine without a network."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *paths]
    unreachable = {"TANDEM_KAFKA_MAVEN_REPOSITORY": "http://127.0.0.1:9"}
    inherited = {
        name: value for name, value in os.environ.items() if name != "TANDEM_KAFKA_TEST_KAFKA"
    }
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**inherited, **unreachable, "XDG_CACHE_HOME": str(cache), **environment},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )


FILES = ("tests/integration/reading/test_broker.py", "tests/integration/reading/test_log_gaps.py")


@pytest.mark.full("a run of pytest of its own")
def test_all_are_skipped_in_one_visible_line(tmp_path: Path) -> None:
    done = without_a_network(tmp_path, "--all", *FILES)
    lines = [each for each in done.stdout.splitlines() if each.startswith("SKIPPED")]
    assert len(lines) == 1
    assert "no test against a real broker was: Kafka" in lines[0]
    assert "cannot be downloaded" in lines[0]
    assert "passed" not in done.stdout.splitlines()[-1]
    assert done.returncode == 0


def test_another_wish_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_KAFKA_TEST_KAFKA", "required")
    with pytest.raises(pytest.UsageError, match="'required': may only be 'require'"):
        why_no_kafka()


def test_they_fail_where_a_broker_is_required(tmp_path: Path) -> None:
    done = without_a_network(tmp_path, "--all", *FILES, TANDEM_KAFKA_TEST_KAFKA="require")
    assert done.returncode not in {0, 5}
    assert "cannot be downloaded" in done.stdout + done.stderr
    assert "skipped" not in done.stdout
