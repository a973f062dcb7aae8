"""The command line that the examples share."""

from __future__ import annotations

import argparse
import os

__all__ = ["parse", "parser"]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the shared options; an example may add its own.

    Args:
        description: The example's docstring.
    """
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    options.add_argument("--bootstrap", default=servers, help="host:port, separated by commas")
    options.add_argument("--topic", default="numbers")
    options.add_argument("--group", default="example")
    options.add_argument("--stop-after", type=int, default=0, help="records; 0 never stops")
    return options


def parse(description: str | None) -> argparse.Namespace:
    """Return `bootstrap`, `topic`, `group` and `stop_after` (0 for never)."""
    return parser(description).parse_args()
