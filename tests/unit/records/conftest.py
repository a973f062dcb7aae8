"""Every test of the record path runs with each of its twins."""

from __future__ import annotations

import pytest

from tests.twins import TWINS, require_twin
from tests.unit.records import making


@pytest.fixture(scope="module", params=TWINS, autouse=True)
def twin(request):
    """The implementation at work in this module's tests."""
    require_twin(request.param)
    with making.using(request.param):
        yield request.param
