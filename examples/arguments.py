"""The command line that all examples have."""

from __future__ import annotations

import argparse


def parse(description: str) -> argparse.Namespace:
    """Return `bootstrap`, `topic`, `group` and `stop_after` (0 for never)."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap", default="localhost:9092", help="host:port, by commas")
    parser.add_argument("--topic", default="numbers")
    parser.add_argument("--group", default="example")
    parser.add_argument("--stop-after", type=int, default=0, help="records; 0 never stops")
    return parser.parse_args()
