"""A plugin of brokers that receives the metrics of clients (KIP-714)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tandem_kafka.testing.kafka.jars import classpath
from tandem_kafka.testing.kafka.process import java_command

__all__ = ["compile_receiver", "received", "receiver_settings", "subscribe"]

_PROGRAM = Path(__file__).with_name("MetricsReceiver.java")


def compile_receiver(folder: Path) -> None:
    """Compile the plugin into a folder, for `KafkaCluster(plugins=...)`."""
    javac = shutil.which("javac")
    if javac is None:
        raise RuntimeError("a JDK is needed for a broker's plugin: no 'javac' on the PATH")
    command = [javac, "-nowarn", "-cp", classpath(), "-d", str(folder), str(_PROGRAM)]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(f"cannot compile {_PROGRAM.name}:\n{done.stderr}")


def receiver_settings(file: Path) -> Mapping[str, str]:
    """Return the settings of a broker that writes what it receives to a file."""
    return {"metric.reporters": "MetricsReceiver", "tests.metrics.file": str(file)}


def received(file: Path, client: str) -> list[dict[str, Any]]:
    """Return what a client has pushed so far."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [push for push in map(json.loads, lines) if push["client"] == client]


def subscribe(bootstrap: str, interval_ms: int, prefixes: Sequence[str]) -> None:
    """Set the one subscription of a cluster."""
    command = java_command(
        "org.apache.kafka.tools.ClientMetricsCommand",
        *("--bootstrap-server", bootstrap, "--alter", "--name", "tests"),
        *("--interval", str(interval_ms), "--metrics", ",".join(prefixes)),
        log_level="warn",
    )
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(f"cannot subscribe to metrics:\n{done.stdout}{done.stderr}")
