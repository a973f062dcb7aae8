"""The line that a consumer logs after its first contact with the cluster."""

from __future__ import annotations

from tandem_kafka.config import Config
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime.native import implementation
from tandem_kafka.version import __version__

__all__ = ["log_opening"]

log = client_logger(__name__)


def log_opening(config: Config, cluster_id: str | None) -> None:
    """Say which client reads from which cluster, and how."""
    group = "no group"
    if config.group_id is not None:
        static = "" if config.group_instance_id is None else f" as {config.group_instance_id!r}"
        group = f"group {config.group_id!r}{static}, group_protocol={config.group_protocol!r}"
    log.info(
        "tandem-kafka %s (%s), cluster %s, %s, %s",
        __version__,
        implementation(),
        cluster_id,
        config.security_protocol,
        group,
    )
