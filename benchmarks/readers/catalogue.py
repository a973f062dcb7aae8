"""All readers by name. Only the process that measures a client imports it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks.aio.applications import APPLICATIONS
from benchmarks.readers.base import Reader, Source
from benchmarks.readers.variants import VARIANTS
from benchmarks.ways.readers import WAYS, open_way
from benchmarks.workers.crews import CREWS

__all__ = [
    "ALONE",
    "AMONG",
    "ARROW",
    "CATALOGUE",
    "CONFLUENT",
    "DRAIN",
    "JAVA",
    "LOOP",
    "OURS",
    "PYTHON",
    "READERS",
    "TUNED",
    "Entry",
]

#: The reader to which the others are compared.
OURS = "tandem"
#: Variants: iteration; columns; without the extension; with many idle partitions assigned, too.
LOOP, ARROW, PYTHON, AMONG = "tandem-loop", "tandem-arrow", "tandem-python", "tandem-among"
CONFLUENT, TUNED = "confluent", "confluent-tuned"
#: The Java client, whose throughput `benchmarks.java` measures.
JAVA = "java"
#: Upper limits for all clients.
DRAIN, ALONE = "socket", "alone"


@dataclass(frozen=True, slots=True)
class Entry:
    """A reader.

    Attributes:
        title: The name in results.
        open: Creates the reader; None if `Suite` starts another process.
        share: The part of the records to read, if all of them would take minutes.
        environment: Environment variables of its process.

    """

    title: str
    open: Callable[[Source], Reader] | None
    share: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)


def _tandem(source: Source) -> Reader:
    from benchmarks.readers.tandem import Tandem

    return Tandem(source)


def _tandem_loop(source: Source) -> Reader:
    from benchmarks.readers.tandem import TandemLoop

    return TandemLoop(source)


def _tandem_arrow(source: Source) -> Reader:
    from benchmarks.readers.tandem import TandemArrow

    return TandemArrow(source)


def _variant(name: str, source: Source) -> Reader:
    from benchmarks.readers.tandem import Tandem, TandemArrow

    variant = VARIANTS[name]
    if variant.switch_interval_s is not None:
        sys.setswitchinterval(variant.switch_interval_s)
    if variant.arrow is not None:
        return TandemArrow(source, variant.arrow)
    return Tandem(source, variant.options)


def _kafka_python(source: Source) -> Reader:
    from benchmarks.readers.kafka_python import KafkaPython

    return KafkaPython(source, crc32c=False)


def _kafka_python_crc32c(source: Source) -> Reader:
    from benchmarks.readers.kafka_python import KafkaPython

    return KafkaPython(source)


def _confluent(source: Source) -> Reader:
    from benchmarks.readers.confluent import Confluent

    return Confluent(source)


def _confluent_tuned(source: Source) -> Reader:
    from benchmarks.readers.confluent import FOR_THROUGHPUT, Confluent

    return Confluent(source, FOR_THROUGHPUT)


def _aiokafka(source: Source) -> Reader:
    from benchmarks.readers.asyncio_kafka import AsyncioKafka

    return AsyncioKafka(source)


def _drain(source: Source) -> Reader:
    from benchmarks.readers.drain import Drain

    return Drain(source)


def _memory(source: Source) -> Reader:
    from benchmarks.readers.memory import Memory

    return Memory(source)


#: Without the extension, its readers must fail instead of measuring the Python implementation.
_NATIVE, _PYTHON = {"TANDEM_KAFKA_IMPL": "native"}, {"TANDEM_KAFKA_IMPL": "python"}

#: The names of the clients in `WAYS`.
_CLIENTS = {
    "tandem": "tandem-kafka",
    "confluent": "confluent-kafka, tuned",
    "kafka-python": "kafka-python + crc32c",
}

#: The readers available to `--readers`.
READERS: dict[str, Entry] = {
    OURS: Entry("tandem-kafka", _tandem, environment=_NATIVE),
    LOOP: Entry("tandem-kafka, iteration", _tandem_loop, environment=_NATIVE),
    ARROW: Entry("tandem-kafka, poll_arrow", _tandem_arrow, environment=_NATIVE),
    PYTHON: Entry("tandem-kafka, Python implementation", _tandem, share=0.25, environment=_PYTHON),
    AMONG: Entry("tandem-kafka, among idle partitions", _tandem, environment=_NATIVE),
    "kafka-python": Entry("kafka-python", _kafka_python, share=0.02),
    "kafka-python-crc32c": Entry("kafka-python + crc32c", _kafka_python_crc32c, share=0.05),
    CONFLUENT: Entry("confluent-kafka", _confluent, share=0.15),
    TUNED: Entry("confluent-kafka, tuned", _confluent_tuned),
    "aiokafka": Entry("aiokafka", _aiokafka, share=0.25),
    JAVA: Entry("Java client", None),
    DRAIN: Entry("bare socket, nothing decoded", _drain),
    ALONE: Entry("the handler alone", _memory),
}
CATALOGUE: dict[str, Entry] = {
    **READERS,
    **{
        name: Entry(variant.title, partial(_variant, name), environment=_NATIVE)
        for name, variant in VARIANTS.items()
    },
    **{
        name: Entry(
            f"{_CLIENTS[way.client]}: {way.title}", partial(open_way, name), way.share, _NATIVE
        )
        for name, way in WAYS.items()
    },
    **{name: Entry(each.title, None, each.share, _NATIVE) for name, each in APPLICATIONS.items()},
    **{name: Entry(crew.title, None, environment=_NATIVE) for name, crew in CREWS.items()},
}
