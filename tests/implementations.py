"""The Python implementation and the native extension, for tests that must hold for both."""

from __future__ import annotations

import os

import pytest

from tandem_kafka.runtime.native import native_available

__all__ = ["IMPLEMENTATIONS", "require_implementation"]

IMPLEMENTATIONS = ("python", "native")


def require_implementation(name: str) -> None:
    """Skip the test if the native extension is not there, unless it was asked to be."""
    if name == "native" and not native_available:
        if os.environ.get("TANDEM_KAFKA_IMPL") == "python":
            pytest.skip("TANDEM_KAFKA_IMPL=python: the native extension is not wanted")
        if os.environ.get("TANDEM_KAFKA_NATIVE") == "require":
            pytest.fail("TANDEM_KAFKA_NATIVE=require, but there is no native extension")
        pytest.skip("the native extension is not installed")
