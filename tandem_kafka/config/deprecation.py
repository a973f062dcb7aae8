"""Deprecation warnings that point at the line of the user's code."""

from __future__ import annotations

import inspect
import warnings

#: The simulated cluster of tandem-kafka-testing makes consumers with the options of a test.
_PACKAGES = ("tandem_kafka", "tandem_kafka_testing")


def warn_deprecated(text: str) -> None:
    """Warn with a DeprecationWarning at the first caller outside these packages.

    Python shows such a warning only when it points at the user's own code.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DeprecationWarning, stacklevel=level)
