"""`tandem-kafka serve`: the cluster embedded in librdkafka, with a topic that grows."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from tandem_kafka.cli.failures import CommandError

__all__ = ["command"]


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
def command(**given: Any) -> None:
    """Run a cluster in this process until Ctrl-C, and print its address.

    It needs no Java. It serves consumers and producers, and no requests about groups.
    """
    if find_spec("confluent_kafka") is None:
        raise CommandError(
            "the embedded cluster needs confluent-kafka: pip install 'tandem-kafka[testing]'"
        )
    from tandem_kafka.testing.serving import Served, serve

    serve(Served(**given))
