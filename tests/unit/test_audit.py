"""`make audit` and the step `audit` of `.ci/run all`."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from release import audit

PIP = {"dependencies": [{"name": "one", "version": "1", "vulns": [{"id": "PYSEC-1"}]}]}
CARGO = {
    "vulnerabilities": {
        "list": [
            {"package": {"name": "two", "version": "2"}, "advisory": {"id": "RUSTSEC-2"}},
        ]
    }
}
NO_PIP = {"dependencies": [{"name": "one", "version": "1", "vulns": []}]}
NO_CARGO: dict[str, Any] = {"vulnerabilities": {"list": []}}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(
    ("pip", "cargo", "status", "told"),
    [
        (NO_PIP, NO_CARGO, 0, ""),
        (PIP, NO_CARGO, 1, "one 1: PYSEC-1"),
        (NO_PIP, CARGO, 1, "two 2: RUSTSEC-2"),
        (None, NO_CARGO, None, "not checked: pip-audit could not check anything: offline"),
        (NO_PIP, None, None, "not checked: cargo-audit could not check anything: offline"),
        ({"dependencies": []}, NO_CARGO, None, "not checked: the package index has no data"),
    ],
)
def test_what_is_found_fails_and_what_cannot_be_checked_if_it_must(
    pip: Any,
    cargo: Any,
    status: int | None,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    lenient: bool,
) -> None:
    def run(command: list[str], **_: Any) -> Any:
        found = pip if "pip_audit" in command else cargo
        return SimpleNamespace(stdout=json.dumps(found) if found else "", stderr="offline\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("sys.argv", ["audit", *["--where-possible"] * lenient])
    with pytest.raises(SystemExit) as ended:
        audit.main()
    assert bool(ended.value.code) == (not lenient if status is None else bool(status))
    assert told in "".join(capsys.readouterr())


def test_a_missing_tool_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(audit.UncheckedError, match="cargo-audit is missing"):
        audit._rust()
    assert capsys.readouterr() == ("", "")
