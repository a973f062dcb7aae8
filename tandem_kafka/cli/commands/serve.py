"""`tandem-kafka serve`: a cluster in this process, with a topic that grows."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import click

from tandem_kafka.cli.failures import CommandError


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
@click.option(
    "--simulated", is_flag=True,
    help="Serve groups of both protocols, and no producers.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0,
    help="Port of the simulated cluster.  [default: a free one]",
)  # fmt: skip
def command(**given: Any) -> None:
    """Run a cluster in this process until Ctrl-C, and print its address.

    It needs no Java. The default is the cluster embedded in librdkafka, which serves producers,
    consumers and classic groups, but does not describe groups. With --simulated, it is the cluster
    of tandem-kafka's own tests: it serves consumers and groups of both protocols, but no producers.
    """
    if given["port"] and not given["simulated"]:
        raise CommandError(
            "--port needs --simulated: the embedded cluster chooses its port", usage=True
        )
    if not given["simulated"] and find_spec("confluent_kafka") is None:
        raise CommandError(
            "the embedded cluster needs confluent-kafka: pip install 'tandem-kafka[testing]', or "
            "use --simulated"
        )
    from tandem_kafka.testing.serving import Served, serve

    try:
        serve(Served(**given))
    except OSError as error:
        raise CommandError(
            f"port {given['port']} cannot be used: {os.strerror(error.errno or 0)}"
        ) from None
