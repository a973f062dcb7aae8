"""Whether a test uses a real or a simulated broker; `--broker` selects one or both."""

from __future__ import annotations

import pytest

__all__ = ["BROKERS", "chosen_broker"]

_COMPARES = "compares the simulation with a real broker"
#: The parameters of such a fixture.
BROKERS = ["simulated", pytest.param("real", marks=pytest.mark.full(_COMPARES))]


def chosen_broker(request: pytest.FixtureRequest) -> str:
    """Return the parameter of a fixture; skip the test if `--broker` selects the other."""
    wanted = request.config.getoption("broker")
    if wanted not in {request.param, "both"}:
        pytest.skip(f"--broker={wanted}")
    return str(request.param)
