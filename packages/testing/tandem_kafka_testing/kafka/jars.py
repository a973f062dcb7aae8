"""The jars of a release of Kafka, downloaded once to a cache that all projects share."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from tandem_kafka_testing.kafka.cache import cache, made_once
from tandem_kafka_testing.kafka.maven import DownloadError, Jars, download

__all__ = ["KAFKA_VERSION", "chosen_version", "classpath", "release_of"]

#: The release that runs if none is named.
KAFKA_VERSION: Final = "4.3.0"

#: Brokers before this release have no SCRAM users when they start without ZooKeeper.
_OLDEST: Final = (3, 5)
#: From this release on, Kafka logs with log4j 2.
_LOG4J_2: Final = (4, 0)


def chosen_version() -> str:
    """Return the release that TANDEM_KAFKA_TEST_VERSION names, or KAFKA_VERSION."""
    return os.environ.get("TANDEM_KAFKA_TEST_VERSION") or KAFKA_VERSION


def release_of(version: str) -> tuple[int, int]:
    """Return the release of a version: (4, 3) for "4.3.0".

    Raises:
        ValueError: It is no version, or RealKafka cannot run it.
    """
    numbers = re.fullmatch(r"(\d+)\.(\d+)\.\d+(-[\w.-]+)?", version, re.ASCII)
    if numbers is None:
        raise ValueError(f"version={version!r} is no version of Kafka; one is {KAFKA_VERSION!r}")
    release = int(numbers[1]), int(numbers[2])
    if release < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ValueError(f"version={version!r} is too old; give {oldest}.0 or a newer version")
    return release


def classpath(version: str | None = None) -> str:
    """Return the class path for a broker and Kafka's tools; downloads the jars if necessary.

    Raises:
        DownloadError: The jars are not in the cache, and cannot be downloaded or kept there.
    """
    return str(_jars(version or chosen_version()) / "*")


def _jars(version: str) -> Path:
    # All that the tools depend on would be twice as much; the brokers' jars are enough for some.
    alone = [f"org.apache.kafka:kafka-tools:{version}", *_logging(version)]
    broker = f"org.apache.kafka:kafka_2.13:{version}"
    wanted = Jars(f"Kafka {version}", [broker], alone)
    try:
        return made_once(cache() / f"kafka-{version}", lambda into: download(wanted, into))
    except OSError as error:
        raise DownloadError(f"{wanted.name} cannot be kept in {cache()}: {error}") from error


def _logging(version: str) -> list[str]:
    """Return what Kafka logs with; its own jars have only a part of it."""
    if release_of(version) < _LOG4J_2:
        return ["org.slf4j:slf4j-reload4j:1.7.36", "ch.qos.reload4j:reload4j:1.2.25"]
    names = ("log4j-api", "log4j-core", "log4j-slf4j-impl")
    return [f"org.apache.logging.log4j:{name}:2.25.4" for name in names]
