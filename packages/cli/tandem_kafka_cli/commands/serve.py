"""`tandem-kafka serve`: a cluster in this process, with a topic that grows."""

from __future__ import annotations

import os
from typing import Any

import click

from tandem_kafka_cli.failures import CommandError
from tandem_kafka_testing.cluster.releases import RELEASES
from tandem_kafka_testing.kafka.jars import KAFKA_VERSION


@click.command()
@click.option("--topic", default="orders", show_default=True, help="Name of the topic.")
@click.option(
    "--partitions", type=click.IntRange(1), default=4, show_default=True, help="Its partitions."
)
@click.option(
    "--values", type=click.Choice(["orders", "numbers"]), default="orders", show_default=True,
    help="JSON documents, or 0, 1, 2 ...",
)  # fmt: skip
@click.option(
    "--records", type=click.IntRange(0), default=100, show_default=True, help="At the start."
)
@click.option(
    "--per-second", type=click.IntRange(0), default=10, show_default=True,
    help="New records per second, 0 for none.",
)  # fmt: skip
@click.option("--brokers", type=click.IntRange(1), default=1, show_default=True, help="Brokers.")
@click.option(
    "--release", type=click.Choice(list(RELEASES)),
    help="Release of Kafka whose versions of the protocol they speak.  [default: all]",
)  # fmt: skip
@click.option(
    "--user", "users", multiple=True, metavar="NAME:PASSWORD",
    help="A user; clients must log in, with PLAIN or SCRAM.  [default: no logins]",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65_535),
    help="Port of the first broker, 0 for free ports.  [default: 9092 if it is free]",
)  # fmt: skip
@click.option(
    "--faults", type=click.Path(exists=True, dir_okay=False),
    help="TOML file of faults.  [default: none]",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of what the faults leave open."
)
@click.option(
    "--kafka", "real", is_flag=False, flag_value=KAFKA_VERSION, metavar="[VERSION]",
    help=f"A real Kafka instead, {KAFKA_VERSION} without a version; downloaded once.",
)  # fmt: skip
def command(**given: Any) -> None:
    """Run a cluster in this process until Ctrl-C, and print its address.

    It is the simulated cluster of tandem-kafka's own tests, and serves clients in any language,
    with the faults of a file if one is given; with --kafka it is a real Kafka. Neither needs Java.
    """
    from tandem_kafka_testing.fault_plan import FaultPlan
    from tandem_kafka_testing.serving import Served, serve

    try:
        if given["faults"] is not None:
            given["faults"] = FaultPlan.load(given["faults"])
    except ValueError as error:
        raise CommandError(f"--faults: {error}", usage=True) from None
    logins = [user.partition(":") for user in given["users"]]
    if not all(name and separator for name, separator, _ in logins):
        raise CommandError("--user: must be NAME:PASSWORD", usage=True)
    given["users"] = {name: password for name, _, password in logins}
    try:
        serve(Served(**given))
    except (RuntimeError, ValueError) as error:
        raise CommandError(str(error), usage=isinstance(error, ValueError)) from None
    except OSError as error:
        raise CommandError(
            f"port {given['port']} cannot be used: {os.strerror(error.errno or 0)}"
        ) from None
