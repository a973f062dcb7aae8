"""`python -m tandem_kafka_testing serve`: a cluster in this process, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from tandem_kafka_testing.cluster.releases import RELEASES
from tandem_kafka_testing.fault_plan import FaultPlan
from tandem_kafka_testing.kafka.jars import KAFKA_VERSION
from tandem_kafka_testing.serving import Served, serve

__all__ = ["main", "parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    chosen = parser().parse_args(arguments)
    chosen.users = dict(chosen.users)
    options = {name: value for name, value in vars(chosen).items() if name != "command"}
    try:
        if chosen.faults is not None:
            options["faults"] = FaultPlan.load(chosen.faults)
        with contextlib.suppress(KeyboardInterrupt):
            serve(Served(**options))
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m tandem_kafka_testing", description="Run a cluster to try things on."
    )
    commands = made.add_subparsers(dest="command", required=True)
    options = commands.add_parser(
        "serve", help="run a cluster with a topic that grows, until Ctrl-C"
    )
    options.add_argument("--topic", default="orders", help="name of the topic (default orders)")
    options.add_argument(
        "--partitions", type=_positive, default=4, help="its partitions (default 4)"
    )
    options.add_argument(
        "--values",
        choices=["orders", "numbers"],
        default="orders",
        help="`orders` (JSON, default) or `numbers` (0, 1, 2 ...)",
    )
    options.add_argument(
        "--records", type=_natural, default=100, help="records at the start (default 100)"
    )
    options.add_argument(
        "--per-second",
        type=_natural,
        default=10,
        help="new records per second, 0 for none (default 10)",
    )
    options.add_argument("--brokers", type=_positive, default=1, help="brokers (default 1)")
    options.add_argument(
        "--release",
        choices=list(RELEASES),
        help="release of Kafka whose versions of the protocol they speak (default all)",
    )
    options.add_argument(
        "--user",
        dest="users",
        action="append",
        default=[],
        type=_login,
        metavar="NAME:PASSWORD",
        help="a user; clients must log in, with PLAIN or SCRAM (default no logins)",
    )
    options.add_argument(
        "--port",
        type=_natural,
        help="port of the first broker, 0 for free ports (default 9092 if it is free)",
    )
    options.add_argument("--faults", metavar="FILE", help="TOML file of faults (default none)")
    options.add_argument(
        "--seed", type=int, default=0, help="seed of what the faults leave open (default 0)"
    )
    options.add_argument(
        "--kafka",
        dest="real",
        nargs="?",
        const=KAFKA_VERSION,
        metavar="VERSION",
        help=f"a real Kafka instead of the simulation, downloaded once (default {KAFKA_VERSION})",
    )
    return made


def _login(text: str) -> tuple[str, str]:
    name, separator, password = text.partition(":")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PASSWORD")
    return name, password


def _natural(text: str) -> int:
    return _at_least(0, text)


def _positive(text: str) -> int:
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"{number} is not allowed; give {least} or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
