"""Looks for published vulnerabilities in the dependencies: `make audit`.

pip-audit checks the packages of this environment, cargo-audit those of the native extension. Both
download their data. If the data or a tool is missing, the command says so and fails, because then
nothing has been checked; with `--where-possible`, it only says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["main"]

_RUST = Path(__file__).resolve().parents[1] / "rust"


class UncheckedError(Exception):
    """A tool or its data is missing."""


def _python() -> str | None:
    """Return what is wrong with the Python packages, or None."""
    command = [sys.executable, "-m", "pip_audit", "--skip-editable", "--format", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = done.stderr.strip()[-300:]
        raise UncheckedError(f"pip-audit could not check anything: {reason}") from None
    checked = [each for each in packages if "vulns" in each]
    found = [each for each in checked if each["vulns"]]
    for each in found:
        ids = ", ".join(vulnerability["id"] for vulnerability in each["vulns"])
        print(f"{each['name']} {each['version']}: {ids}")
    print(f"pip-audit: {len(checked)} of {len(packages)} packages checked")
    if found:
        return f"{len(found)} packages have known vulnerabilities"
    if not checked:
        reason = packages[0].get("skip_reason", "") if packages else "no packages"
        raise UncheckedError(f"the package index has no data about vulnerabilities: {reason}")
    return None


def _rust() -> str | None:
    """Return what is wrong with the crates, or None."""
    tool = shutil.which("cargo-audit")
    if tool is None:
        raise UncheckedError("cargo-audit is missing: cargo install cargo-audit")
    command = [tool, "audit", "--json"]
    done = subprocess.run(command, cwd=_RUST, check=False, capture_output=True, text=True)
    try:
        found = json.loads(done.stdout)["vulnerabilities"]["list"]
    except (ValueError, KeyError):
        reason = done.stderr.strip()[-300:]
        raise UncheckedError(f"cargo-audit could not check anything: {reason}") from None
    for each in found:
        package = each["package"]
        print(f"{package['name']} {package['version']}: {each['advisory']['id']}")
    return f"{len(found)} crates have known vulnerabilities" if found else None


def main() -> None:
    """Run both, and end with an error if one finds something or cannot check."""
    failed = False
    for check in (_python, _rust):
        try:
            problem = check()
            failed |= problem is not None
        except UncheckedError as error:
            problem = f"not checked: {error}"
            failed |= "--where-possible" not in sys.argv[1:]
        if problem is not None:
            print(" ".join(problem.split()), file=sys.stderr)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
