"""The entry point: `tandem-kafka`, or `python -m tandem_kafka.cli`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandem_kafka.cli.environment import Environment

__all__ = ["main"]

_NEEDED = ("click", "rich")


def main(arguments: Sequence[str] | None = None, environment: Environment | None = None) -> int:
    """Run a command; returns the exit code.

    Args:
        arguments: The arguments; those of the process by default.
        environment: What the command uses; a test has its own.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        print(f"tandem-kafka needs {names}: pip install 'tandem-kafka[cli]'", file=sys.stderr)
        return 1
    from tandem_kafka.cli.running import run

    return run(arguments, environment)


if __name__ == "__main__":
    sys.exit(main())
