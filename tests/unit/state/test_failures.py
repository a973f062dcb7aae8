"""What fails for long is named, until it succeeds or nobody asks any more."""

from __future__ import annotations

from tandem_kafka.state.failures import FORGOTTEN_MS, LASTING_MS, Failures


def names(failures: Failures, now_ms: int) -> list[tuple[str, int]]:
    return [(api, node_id) for api, node_id, _ in failures.lasting(now_ms)]


def test_a_failure_that_lasts_is_named_until_a_success() -> None:
    failures = Failures()
    assert not failures.failed("Fetch", 1, ValueError("first"), 1_000)
    assert failures.failed("Fetch", 1, ValueError("second"), 1_000 + LASTING_MS - 1)
    assert names(failures, 1_000 + LASTING_MS) == []
    assert failures.failed("Fetch", 1, ValueError("third"), 1_000 + LASTING_MS)
    failures.failed("Fetch", 2, ValueError(), 1_000)
    [(api, node_id, text)] = failures.lasting(13_000)
    assert (api, node_id) == ("Fetch", 1)
    assert text == "broker 1: Fetch has failed for 12.0 s: ValueError: third"
    failures.succeeded("Fetch", 2)
    assert names(failures, 13_000) == [("Fetch", 1)]
    failures.succeeded("Fetch", 1)
    assert names(failures, 13_000) == []


def test_a_failure_without_another_is_forgotten() -> None:
    failures = Failures()
    failures.failed("Fetch", -1, ValueError(), 0)
    failures.failed("Fetch", -1, ValueError(), LASTING_MS)
    assert names(failures, LASTING_MS + FORGOTTEN_MS) == [("Fetch", -1)]
    assert names(failures, LASTING_MS + FORGOTTEN_MS + 1) == []
    assert not failures.failed("Fetch", -1, ValueError(), 200_000)
    assert names(failures, 200_001) == []
