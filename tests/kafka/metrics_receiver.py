"""A plugin of brokers that receives the metrics of clients (KIP-714)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tandem_kafka_testing.kafka.java import compiled, java_command

__all__ = ["compiled_receiver", "received", "receiver_settings", "subscribe"]

_PROGRAM = Path(__file__).with_name("MetricsReceiver.java")


def compiled_receiver() -> Path:
    """Return the folder of the plugin, for `RealKafka(plugins=...)`."""
    return compiled(_PROGRAM)


def receiver_settings(file: Path) -> Mapping[str, str]:
    """Return the settings of a broker that writes what it receives to a file."""
    return {"metric.reporters": "MetricsReceiver", "tests.metrics.file": str(file)}


def received(file: Path, client: str) -> list[dict[str, Any]]:
    """Return what a client has pushed so far."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    whole, _, _ = text.rpartition("\n")  # the broker writes a long line in several pieces
    return [push for push in map(json.loads, whole.splitlines()) if push["client"] == client]


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
