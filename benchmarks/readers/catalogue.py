"""Every reader by name. A client is imported only in the process that measures it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.readers.base import Reader, Source

__all__ = ["CATALOGUE", "JAVA", "OURS", "Entry"]

#: The reader that the others are compared with.
OURS = "tandem"
#: The one that is no Python at all: `benchmarks.java` measures its throughput.
JAVA = "java"


@dataclass(frozen=True, slots=True)
class Entry:
    """A reader.

    Attributes:
        title: How results name it.
        open: Makes it; None for the Java client.
        share: The part of the records that it reads, where all of them would take minutes.

    """

    title: str
    open: Callable[[Source], Reader] | None
    share: float = 1.0


def _tandem(source: Source) -> Reader:
    from benchmarks.readers.tandem import Tandem

    return Tandem(source)


def _tandem_5000(source: Source) -> Reader:
    from benchmarks.readers.tandem import Tandem

    return Tandem(source, max_records=5000)


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
    from benchmarks.readers.confluent import TUNED, Confluent

    return Confluent(source, TUNED)


def _aiokafka(source: Source) -> Reader:
    from benchmarks.readers.asyncio_kafka import AsyncioKafka

    return AsyncioKafka(source)


CATALOGUE: dict[str, Entry] = {
    OURS: Entry("tandem-kafka", _tandem),
    "tandem-5000": Entry("tandem-kafka, 5000 a poll", _tandem_5000),
    "kafka-python": Entry("kafka-python", _kafka_python, share=0.05),
    "kafka-python-crc32c": Entry("kafka-python + crc32c", _kafka_python_crc32c, share=0.25),
    "confluent": Entry("confluent-kafka", _confluent),
    "confluent-tuned": Entry("confluent-kafka, tuned", _confluent_tuned),
    "aiokafka": Entry("aiokafka", _aiokafka),
    JAVA: Entry("Java client", None),
}
