"""The fixtures for users, run by pytest."""

from __future__ import annotations

import pytest

import tandem_kafka
from tandem_kafka_testing.laboratory import SimulatedKafka
from tests.sources import ROOT

pytest_plugins = ["pytester"]

PLUGIN = "tandem_kafka_testing.pytest_plugin"

# A module that a run of `pytester` imports first is removed after it, but not the names that the
# package keeps of it.
assert tandem_kafka.KafkaConsumer


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the packages importable, and use the simulated cluster."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "packages" / "testing"))
    monkeypatch.delenv("TANDEM_KAFKA_TEST_BROKERS", raising=False)
    monkeypatch.delenv("TANDEM_BOOTSTRAP_SERVERS", raising=False)


def passes(pytester: pytest.Pytester, code: str, tests: int) -> None:
    pytester.makepyfile(code)
    pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider").assert_outcomes(
        passed=tests
    )


@pytest.mark.smoke
def test_no_record_is_lost_when_connections_are_cut(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        def test_it(kafka_cluster):
            kafka_cluster.produce("orders", b"1", b"2")
            consumer = kafka_cluster.consumer(
                "orders", group_id="billing", auto_offset_reset="earliest"
            )
            assert consumer.poll(30_000).count == 2
            kafka_cluster.cut()
            kafka_cluster.produce("orders", b"3")
            assert consumer.poll(30_000).count == 1
            began_ms = kafka_cluster.now_ms
            kafka_cluster.advance(6_000)
            assert kafka_cluster.now_ms == began_ms + 6_000
            consumer.poll(0)
            kafka_cluster.poll_until(lambda: kafka_cluster.committed(consumer, "orders") == 3)
        """,
        1,
    )


def test_poll_until_raises_after_its_timeout(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import pytest

        def test_it(kafka_cluster):
            kafka_cluster.create_topic("orders")
            kafka_cluster.consumer("orders", group_id="billing")
            with pytest.raises(TimeoutError):
                kafka_cluster.poll_until(lambda: False)
        """,
        1,
    )


def test_the_marker_passes_arguments_to_the_cluster(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import pytest

        @pytest.mark.kafka_cluster(7, brokers=3, kafka="3.9", racks=["a", "b"])
        def test_marked(kafka_cluster):
            brokers = kafka_cluster.cluster.brokers.values()
            assert [broker.rack for broker in brokers] == ["a", "b", "a"]
            assert {broker.release.name for broker in brokers} == {"3.9"}
            assert kafka_cluster.simulation.seed == 7

        def test_not_marked(kafka_cluster):
            brokers = kafka_cluster.cluster.brokers.values()
            assert [(b.rack, b.release) for b in brokers] == [(None, None)] * 2

        def test_transactions_quotas_and_retention(kafka_cluster):
            (tp,) = kafka_cluster.create_topic("orders")
            cluster = kafka_cluster.cluster
            with cluster.transaction() as transaction:
                transaction.produce(tp, b"1", b"2")
            cluster.transaction().produce(tp, b"undecided")
            cluster.delete_records(tp, 1)
            cluster.brokers[1].quotas.limit_fetches("reader", 1_000_000)
            consumer = kafka_cluster.consumer(
                "orders",
                group_id="billing",
                client_id="reader",
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
            assert [record.value for record in consumer.poll(30_000)[tp]] == [b"2"]
        """,
        3,
    )


def test_an_unknown_release_in_the_marker_is_rejected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_cluster(kafka="1.0")
        def test_it(kafka_cluster):
            pass
        """
    )
    result = pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kafka: '1.0' is not simulated; there are '0.11', '2.8', *"])


def test_the_marker_of_a_topic_takes_its_argument_by_name(pytester: pytest.Pytester) -> None:
    passes(
        pytester,
        """
        import types

        import pytest

        @pytest.fixture(scope="session")
        def kafka():
            made = types.SimpleNamespace(new_topic=lambda name, partitions=1: (name, partitions))
            return types.SimpleNamespace(admin=made)

        @pytest.mark.kafka_topic(partitions=4)
        def test_by_name(kafka_topic):
            assert kafka_topic == ("test_by_name", 4)

        @pytest.mark.kafka_topic(4)
        def test_by_position(kafka_topic):
            assert kafka_topic == ("test_by_position", 4)

        def test_none(kafka_topic):
            assert kafka_topic == ("test_none", 1)
        """,
        3,
    )


def test_a_deprecated_option_is_a_warning_about_the_line_of_the_test() -> None:
    kafka = SimulatedKafka()
    with pytest.warns(DeprecationWarning, match="'smallest' is deprecated") as caught:
        kafka.consumer(auto_offset_reset="smallest")
    kafka.close()
    assert [each.filename for each in caught] == [__file__]
