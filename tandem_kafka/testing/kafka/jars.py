"""Kafka's jars, downloaded once with Maven to a cache that all runs share."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KAFKA_VERSION = "4.3.0"

_POM = Path(__file__).with_name("pom.xml")


def classpath() -> str:
    """Return the class path for a broker and Kafka's tools; downloads the jars if necessary."""
    folder = _folder()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be downloading
            if not folder.is_dir():
                _download(folder)
    return str(folder / "*")


def _folder() -> Path:
    chosen = os.environ.get("TANDEM_KAFKA_JARS")
    if chosen:
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tandem-kafka" / f"kafka-{KAFKA_VERSION}"


def _download(folder: Path) -> None:
    """Download to a temporary folder and rename it, so that an existing folder is complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("Maven (mvn) is needed to download Kafka: install it")
    print(f"downloading Kafka {KAFKA_VERSION} into {folder}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="download-") as scratch:
        target = Path(scratch) / "jars"
        done = subprocess.run(
            [
                *(maven, "--batch-mode", "--quiet", "--file", str(_POM)),
                f"-Dkafka.version={KAFKA_VERSION}",
                f"-DoutputDirectory={target}",
                "-DincludeScope=runtime",
                "dependency:copy-dependencies",
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"Maven could not download Kafka:\n{done.stdout}{done.stderr}")
        target.rename(folder)
