"""The results for the manual (docs/coming-from/kafka-python.md)."""

from __future__ import annotations

from tests.others.kafka_python import SUITE

__all__ = ["table"]


def table() -> str:
    """Return one row for each file of tests, as Markdown."""
    lines = ["| file | tests | passed | left out |", "|---|---:|---:|---|"]
    for file, tests in SUITE.tests.items():
        reasons = []
        for test, left_out in SUITE.left_out.items():
            if test.startswith(f"{file}::"):
                runs = " in some runs" if left_out.sometimes else ""
                reasons.append(f"`{test.removeprefix(f'{file}::')}`{runs}: {left_out.reason}")
        passed = tests - len(reasons)
        lines.append(f"| `{file}` | {tests} | {passed} | {'; '.join(reasons) or 'none'} |")
    return "\n".join(lines) + "\n"
