"""`python -m tests.histories FILE`: the anomalies of a history, as lines of JSON.

A second argument is how many transactions may be open at once; 0 without it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.histories.anomalies import anomalies
from tests.histories.operations import from_lines


def main() -> int:
    """Print the anomalies; returns 1 if there are any."""
    history = from_lines(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    transactions = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    found = anomalies(history, transactions)
    for anomaly in found:
        print(anomaly)
    print(f"{len(history)} operations, {len(found)} anomalies")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
