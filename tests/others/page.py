"""The results for the manual, as Markdown."""

from __future__ import annotations

from tests.others import franz_go, kafka_python
from tests.others.suite import Suite

__all__ = ["of_franz_go", "of_kafka_python"]


def of_kafka_python() -> str:
    """Return the table of docs/coming-from/kafka-python.md."""
    return _table(kafka_python.SUITE)


def of_franz_go() -> str:
    """Return the table of docs/explained/simulation.md."""
    return _table(franz_go.SUITE)


def _table(suite: Suite) -> str:
    """One row for each file of tests."""
    lines = ["| file | tests | passed | left out |", "|---|---:|---:|---|"]
    for file, tests in suite.tests.items():
        reasons = []
        for test, left_out in suite.left_out.items():
            if test.startswith(f"{file}::"):
                runs = " in some runs" if left_out.sometimes else ""
                reasons.append(f"`{test.removeprefix(f'{file}::')}`{runs}: {left_out.reason}")
        passed = tests - len(reasons)
        lines.append(f"| `{file}` | {tests} | {passed} | {'; '.join(reasons) or 'none'} |")
    return "\n".join(lines) + "\n"
