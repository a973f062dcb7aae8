"""Jars that are downloaded once: Spark's own Kafka connector, and others for comparisons."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from tandem_kafka_testing.kafka.cache import cache, made_once
from tandem_kafka_testing.kafka.maven import DownloadError, Jars, download

__all__ = ["connector_jars", "connector_version", "jars_of"]

#: A repository may lack the connector for this version of Spark, or a part of it. The one of 4.2
#: runs on 4.2 and 4.3. It uses only parts of the token provider that have not changed since 4.0.
_LAST_RESORT = ("4.2.0", "4.0.0")
_RUNS_ON = ("4.2.", "4.3.")
#: What the connector needs and pyspark does not bring along.
_ALSO = ("org.apache.kafka:kafka-clients:3.9.1", "org.apache.commons:commons-pool2:2.12.1")


@functools.cache
def connector_jars() -> tuple[str, ...]:
    """Return the paths of the jars; empty if the download fails.

    TANDEM_KAFKA_SPARK_CONNECTOR=off disables them.
    """
    if os.environ.get("TANDEM_KAFKA_SPARK_CONNECTOR") == "off":
        return ()
    own = version("pyspark")
    candidates = {
        f"spark-kafka-{connector}-{tokens}": (
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{connector}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{tokens}",
            *_ALSO,
        )
        for connector, tokens in ((own, own), _LAST_RESORT)
        if connector == own or own.startswith(_RUNS_ON)
    }
    return tuple(map(str, jars_of(candidates)))


def connector_version() -> str | None:
    """Return the connector's version, or None if it is not available."""
    names = (Path(jar).name for jar in connector_jars())
    found = [name for name in names if name.startswith("spark-sql-kafka")]
    return found[0].removesuffix(".jar").rpartition("-")[2] if found else None


def jars_of(candidates: Mapping[str, Sequence[str]]) -> Sequence[Path]:
    """Return the jars of the first candidate that can be had, one in the cache before all others.

    Args:
        candidates: The artifacts of each candidate, by the name of its folder.
    """
    for name in sorted(candidates, key=lambda name: not (cache() / name).is_dir()):
        wanted = Jars(name, alone=candidates[name])
        try:
            folder = made_once(cache() / name, functools.partial(download, wanted))
        except DownloadError:
            continue
        return sorted(folder.glob("*.jar"))
    return ()
