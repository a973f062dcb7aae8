"""`tandem-kafka demo`: a group on an embedded cluster; one member stops, one is killed."""

from __future__ import annotations

from importlib.util import find_spec

import click

from tandem_kafka.cli.failures import CommandError


@click.command()
def command() -> int:
    """Watch a group on an embedded cluster for half a minute.

    One member stops and one is killed. At the end, every record is accounted for. It needs no
    Java. Exits with 1 if a record was missed.
    """
    if find_spec("confluent_kafka") is None:
        raise CommandError(
            "the embedded cluster needs confluent-kafka: pip install 'tandem-kafka[demo]'"
        )
    from tandem_kafka.demo.__main__ import main

    return main()
