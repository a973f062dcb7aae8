"""Which implementation runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(wanted):
    environment = {**os.environ, "TANDEM_KAFKA_IMPL": wanted}
    code = "import tandem_kafka.records as r; print(r.IMPLEMENTATION)"
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("wanted", ["", "python"])
def test_python_runs_when_asked_for_or_not(wanted):
    assert run(wanted).stdout == "python\n"


@pytest.mark.parametrize("wanted", ["native", "fast"])
def test_what_is_not_there_is_an_import_error(wanted):
    done = run(wanted)
    assert done.returncode
    assert f"ImportError: TANDEM_KAFKA_IMPL={wanted}" in done.stderr
