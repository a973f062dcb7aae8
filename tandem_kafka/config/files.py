"""Files that options name."""

from __future__ import annotations

from pathlib import Path

from tandem_kafka.errors import KafkaConfigurationError


def read_file(option: str, path: str) -> bytes:
    """Return the content of a file.

    Raises:
        KafkaConfigurationError: The file cannot be read; the text names it and the option.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KafkaConfigurationError(
            f"{option}: cannot read {path} ({error.strerror}); correct the path or its permissions"
        ) from error
