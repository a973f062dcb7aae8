"""The share group of raw members."""

from __future__ import annotations

import pytest

from tests.integration.brokers import Brokers
from tests.integration.share.share_worlds import ShareWorld
from tests.integration.share.sharing import require_share_groups


@pytest.fixture
def world(request: pytest.FixtureRequest, brokers: Brokers) -> ShareWorld:
    """A new topic and a new share group."""
    if request.node.callspec.params["brokers"] == "real":
        require_share_groups()
    return ShareWorld(brokers)
