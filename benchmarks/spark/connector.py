"""Jars that Maven downloads once: Spark's own Kafka connector, and others for comparisons."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

__all__ = ["cache", "connector_jars", "connector_version", "download"]

_POM = Path(__file__).with_name("connector.pom.xml")
#: A mirror may lack the connector for this version of Spark, or a part of it. The one of 4.2 runs
#: on 4.2 and 4.3. It uses only parts of the token provider that have not changed since 4.0.
_LAST_RESORT = ("4.2.0", "4.0.0")
_RUNS_ON = ("4.2.", "4.3.")


@functools.cache
def connector_jars() -> tuple[str, ...]:
    """Return the paths of the jars; empty without Maven or if the download fails.

    TANDEM_KAFKA_SPARK_CONNECTOR=off disables them.
    """
    if os.environ.get("TANDEM_KAFKA_SPARK_CONNECTOR") == "off":
        return ()
    own = version("pyspark")
    candidates = [
        (cache() / f"spark-kafka-{connector}-{tokens}", connector, tokens)
        for connector, tokens in ((own, own), _LAST_RESORT)
        if connector == own or own.startswith(_RUNS_ON)
    ]
    there = [folder for folder, *_ in candidates if folder.is_dir()]
    folder = there[0] if there else None
    for target_folder, connector, tokens in candidates:
        if folder is None and download(target_folder, _POM, _versions(connector, tokens)):
            folder = target_folder
    return () if folder is None else tuple(sorted(str(jar) for jar in folder.glob("*.jar")))


def connector_version() -> str | None:
    """Return the connector's version, or None if it is not available."""
    names = (Path(jar).name for jar in connector_jars())
    found = [name for name in names if name.startswith("spark-sql-kafka")]
    return found[0].removesuffix(".jar").rpartition("-")[2] if found else None


def cache() -> Path:
    """Return the folder for downloads."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "tandem-kafka"


def _versions(connector: str, tokens: str) -> dict[str, str]:
    return {"connector.version": connector, "tokens.version": tokens}


def download(folder: Path, pom: Path, properties: Mapping[str, str]) -> bool:
    """Copy the dependencies of a POM into a folder; False if Maven cannot get them.

    They are downloaded to a temporary folder and renamed, so an existing folder is complete.
    """
    maven = shutil.which("mvn")
    if maven is None:
        return False
    print(f"downloading {folder.name} into {folder}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as scratch:
        target = Path(scratch) / "jars"
        done = subprocess.run(
            [
                *(maven, "--batch-mode", "--quiet", "--file", str(pom)),
                *(f"-D{name}={value}" for name, value in properties.items()),
                *(f"-DoutputDirectory={target}", "-DincludeScope=runtime"),
                "dependency:copy-dependencies",
            ],
            check=False,
            capture_output=True,
        )
        if done.returncode == 0 and not folder.is_dir():
            target.rename(folder)
    return done.returncode == 0
