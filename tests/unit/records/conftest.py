"""Every test of the record path runs with each of its implementations."""

from __future__ import annotations

import pytest

from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.unit.records import making


@pytest.fixture(scope="module", params=IMPLEMENTATIONS, autouse=True)
def implementation(request):
    """The implementation at work in this module's tests."""
    require_implementation(request.param)
    with making.using(request.param):
        yield request.param
