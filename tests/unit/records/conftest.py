"""Every test of the record path runs with both implementations."""

from __future__ import annotations

import pytest

from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.unit.records import making


@pytest.fixture(scope="module", params=IMPLEMENTATIONS, autouse=True)
def implementation(request):
    """The implementation that the tests use."""
    require_implementation(request.param)
    with making.using(request.param):
        yield request.param
