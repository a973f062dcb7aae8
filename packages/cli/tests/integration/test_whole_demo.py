"""The whole demo on its own cluster: it succeeds, and it detects a missed record."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tandem_kafka_cli.demo.__main__ import LIMIT_S
from tests.sources import ROOT

pytestmark = pytest.mark.full("takes long on a real broker")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S + 45,  # a busy machine starts it slowly
        check=False,
    )


def test_the_demo_succeeds() -> None:
    ran = run("-m", "tandem_kafka_cli.demo")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for event in (
        r"member 2 stopped: it committed and left the group",
        r"member 1 owns 0,1,2,3\n.*member 1 took over \d,\d without pausing \d,\d",
        r"member 1 killed: [\d,]+ records were read and not committed",
        r"member 3 owns 0,1,2,3\n.*member 3 took over \d,\d from the committed offsets",
        r"No record was missed\.",
    ):
        assert re.search(event, ran.stdout), ran.stdout


def test_a_missing_record_makes_the_demo_fail() -> None:
    command = "import sys, tandem_kafka_cli.demo.__main__ as demo; sys.exit(demo.main(sys.argv[1]))"
    ran = run("-c", command, "packages.cli.tests.integration.forgetful_member")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert re.search(r"failed: partition \d: expected offset \d+, read \d+", ran.stdout)
    assert re.search(r"read again\s+\d+", ran.stdout)
