"""So has each mistake of a connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mistakes.connecting import CONNECTING, Servers
from tests.mistakes.mistake import Mistake

pytestmark = pytest.mark.real_time


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.mark.parametrize("mistake", CONNECTING.values(), ids=CONNECTING)
def test_a_mistake_of_connections(
    mistake: Mistake, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    mistake.check(servers, caplog)
