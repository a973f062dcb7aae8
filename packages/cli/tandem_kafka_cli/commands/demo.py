"""`tandem-kafka demo`: a group on a simulated cluster; one member stops, one is killed."""

from __future__ import annotations

import click


@click.command()
def command() -> int:
    """Watch a group on a simulated cluster for half a minute.

    One member stops and one is killed. At the end, every record is accounted for. It needs no
    Java. Exits with 1 if a record was missed.
    """
    from tandem_kafka_cli.demo.__main__ import main

    return main()
