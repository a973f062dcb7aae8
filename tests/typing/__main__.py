"""Runs the type checkers as a user would: `python -m tests.typing`.

In right.py they must find nothing, in wrong.py an error in each line marked `# wrong:` and in no
other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"

#: By file, the lines with an error and what was said of them.
Found = dict[Path, dict[int, str]]

#: What pyright is asked for; `basedpyright` is pyright from a package index, with rules of its own.
PYRIGHT = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}


def by_mypy() -> Found:
    """Return what `mypy --strict` finds, without the project's own settings."""
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--explicit-package-bases"]
    options += ["--python-version=3.11", "--output=json"]
    command = [sys.executable, "-m", "mypy", *options, str(RIGHT), str(WRONG)]
    found: Found = {}
    for line in _output(command).splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            if entry["severity"] == "error":
                place = found.setdefault((ROOT / entry["file"]).resolve(), {})
                place.setdefault(entry["line"], entry["message"])
    return found


def by_pyright() -> Found:
    """Return what pyright finds in its strict mode."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "pyrightconfig.json"
        included = {"include": [str(RIGHT), str(WRONG)], "extraPaths": [str(ROOT)]}
        settings.write_text(json.dumps(PYRIGHT | included))
        command = [sys.executable, "-m", "basedpyright", "--project", str(settings)]
        command += ["--pythonpath", sys.executable, "--outputjson"]
        answer = json.loads(_output(command))
    if answer["summary"]["filesAnalyzed"] != 2:
        raise SystemExit(f"pyright looked at {answer['summary']['filesAnalyzed']} files, not at 2")
    found: Found = {}
    for entry in answer["generalDiagnostics"]:
        if entry["severity"] == "error":
            place = found.setdefault(Path(entry["file"]).resolve(), {})
            place.setdefault(entry["range"]["start"]["line"] + 1, entry["message"])
    return found


CHECKERS: dict[str, Callable[[], Found]] = {"mypy": by_mypy, "pyright": by_pyright}


def _output(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{command[2]} failed: {done.stderr or done.stdout}")
    return done.stdout


def complaints(found: Found) -> list[str]:
    """Return what is found and should not be, and what should be and is not."""
    lines = WRONG.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if re.search(r"# wrong: \w", line)}
    right, wrong = found.get(RIGHT, {}), found.get(WRONG, {})
    told = [f"right.py:{line}: {message}" for line, message in sorted(right.items())]
    missed = [f"wrong.py:{line}: not found" for line in sorted(marked - wrong.keys())]
    extra = [f"wrong.py:{line}: {wrong[line]}" for line in sorted(wrong.keys() - marked)]
    return [*told, *missed, *extra, *([] if marked else ["wrong.py: no marker"])]


def main() -> int:
    """Run both; 1 if one of them has something to say that it should not, or misses something."""
    failed = 0
    for name, check in CHECKERS.items():
        told = complaints(check())
        print(f"{name}: {'as expected' if not told else ''}")
        print("".join(f"  {line}\n" for line in told), end="")
        failed += bool(told)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
