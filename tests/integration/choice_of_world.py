"""Which of the two worlds a test runs in: `--broker=real`, `--broker=simulated`, or both."""

from __future__ import annotations

import pytest

__all__ = ["chosen"]


def chosen(request: pytest.FixtureRequest) -> str:
    """Return the world of a fixture's parameter; skips the test if `--broker` is the other."""
    wanted = request.config.getoption("broker")
    if wanted not in {request.param, "both"}:
        pytest.skip(f"--broker={wanted}")
    return str(request.param)
