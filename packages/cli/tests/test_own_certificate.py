"""`doctor` reads the dates of the client's certificate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from tandem_kafka_cli.doctor.certificates import own_certificate
from tandem_kafka_cli.doctor.finding import Verdict

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "verdict", "text"),
    [
        (timedelta(0), Verdict.OK, "the client's certificate is valid (subject"),
        (timedelta(days=31), Verdict.FAILED, "the client's certificate has expired (subject"),
        (timedelta(days=-31), Verdict.FAILED, "the client's certificate is not valid yet (subject"),
    ],
)
def test_the_dates_are_compared_with_the_clock(
    tmp_path: Path, after: timedelta, verdict: Verdict, text: str
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert(
        "client", not_before=NOW - timedelta(days=30), not_after=NOW + timedelta(days=30)
    )
    path = tmp_path / "client.pem"
    issued.cert_chain_pems[0].write_to_path(path)
    found = own_certificate(str(path), round((NOW + after).timestamp() * 1000))
    assert found.verdict is verdict
    assert found.seen.startswith(text)
    assert "to 2026-07-01" in found.seen


def test_a_file_that_is_no_certificate_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "client.pem"
    path.write_text("-")
    found = own_certificate(str(path), 0)
    assert found.verdict is Verdict.WARNING
    assert "unknown" in found.seen
