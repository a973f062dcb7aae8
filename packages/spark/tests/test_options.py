"""Options without a cluster: names of the Java client, secrets, and the documentation."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from tandem_kafka.errors import InvalidArgumentError, KafkaConfigurationError
from tandem_kafka.types import TopicPartition
from tests.sources import ROOT

from pyspark_tandem_kafka.client import consumer_options, producer_options  # isort: skip
from pyspark_tandem_kafka.offsets import StreamOffset, rate_limited  # isort: skip
from pyspark_tandem_kafka.options import SINK, SOURCE, SinkOptions, SourceOptions  # isort: skip
from pyspark_tandem_kafka.ranges import OffsetRange, split  # isort: skip

PAGE = (ROOT / "docs" / "reference" / "spark.md").read_text()
SERVERS = {"bootstrap.servers": "localhost:9092"}
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="s3\\"cret";'
)


def test_every_option_is_documented() -> None:
    for option in (*SOURCE, *SINK):
        assert f"| `{option.name}` |" in PAGE
        if isinstance(option.default, int) and option.name != "maxTriggerDelay":
            shown = str(option.default).lower()
            assert f"| `{option.name}` | `{shown}` |" in PAGE


def test_a_login_of_the_java_client() -> None:
    kafka = {**SERVERS, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}
    kafka["security.protocol"] = "SASL_PLAINTEXT"
    ours = consumer_options(kafka)
    assert (ours["sasl_plain_username"], ours["sasl_plain_password"]) == ("alice", 's3"cret')
    theirs = producer_options(kafka)
    assert (theirs["sasl.username"], theirs["sasl.password"]) == ("alice", 's3"cret')


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"acks": "all", "enable.idempotence": "true"},
        {"acks": "-1", "enable_idempotence": "True"},
        {"request.required.acks": "-1"},
    ],
)
def test_the_sink_uses_idempotence_and_acks_all(given: dict[str, str]) -> None:
    found = producer_options({**SERVERS, **given})
    assert (found["enable.idempotence"], found["acks"]) == ("true", "all")
    assert not found.keys() & {"request.required.acks", "enable_idempotence"}


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("acks", "1", "all or -1"),
        ("acks", "0", "all or -1"),
        ("request.required.acks", "1", "all or -1"),
        ("enable.idempotence", "false", "true"),
    ],
)
def test_options_that_weaken_the_sinks_guarantees_are_rejected(
    name: str, value: str, allowed: str
) -> None:
    for given in (name, name.replace(".", "_")):
        with pytest.raises(KafkaConfigurationError) as error:
            producer_options({**SERVERS, given: value})
        assert f"kafka.{name}={value} is not allowed" in str(error.value)
        assert str(error.value).endswith(f"or set it to {allowed}")


def test_types_and_stores() -> None:
    kafka = {
        **SERVERS,
        "fetch.min.bytes": "5",
        "check_crcs": "false",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }
    found = consumer_options({**kafka, "security.protocol": "SSL"})
    assert found["fetch_min_bytes"] == 5
    assert found["check_crcs"] is False
    assert (found["ssl_cafile"], found["ssl_check_hostname"]) == ("/ca.pem", False)


@pytest.mark.parametrize("value", ["true", "True", "FALSE", "yes", " true", ""])
def test_the_sink_checks_names_of_hosts_as_the_source_does(value: str) -> None:
    name = "ssl.endpoint.identification.algorithm"
    for given in ("ssl.check.hostname", "ssl_check_hostname"):
        kafka = {**SERVERS, "security.protocol": "SSL", given: value}
        try:
            checks = consumer_options(kafka)["ssl_check_hostname"]
        except KafkaConfigurationError as error:
            with pytest.raises(KafkaConfigurationError, match=re.escape(str(error))):
                producer_options(kafka)
        else:
            assert producer_options(kafka)[name] == ("https" if checks else "none")


@pytest.mark.parametrize(
    ("name", "value", "kilobytes"),
    [
        ("buffer.memory", "67108864", "65536"),
        ("buffer_memory", "1", "1"),
        ("queue.buffering.max.kbytes", "65536", "65536"),
    ],
)
def test_the_size_of_the_sinks_buffer(name: str, value: str, kilobytes: str) -> None:
    """The Java client's name has bytes, and librdkafka's has kilobytes."""
    assert producer_options({**SERVERS, name: value})["queue.buffering.max.kbytes"] == kilobytes


@pytest.mark.parametrize("name", ["max.poll.records", "session.timeout.ms", "metric.reporters"])
def test_source_options_without_effect_are_documented(name: str) -> None:
    """They are accepted and ignored."""
    for given in (name, name.replace(".", "_")):
        assert consumer_options({**SERVERS, given: "7"}) == consumer_options(SERVERS)
    row = next(each for each in PAGE.splitlines() if each.startswith(f"| `kafka.{name}`"))
    assert "without effect" in row


@pytest.mark.parametrize("name", ["max.block.ms", "metric.reporters"])
def test_sink_options_without_effect_are_documented(name: str) -> None:
    for given in (name, name.replace(".", "_")):
        assert producer_options({**SERVERS, given: "7"}) == producer_options(SERVERS)
    row = next(each for each in PAGE.splitlines() if each.startswith("| `kafka.max.block.ms`"))
    assert f"`kafka.{name}`" in row
    assert "without effect" in row


def test_the_sink_rejects_partitioners_of_the_jvm() -> None:
    with pytest.raises(KafkaConfigurationError, match=r"partitioner\.class .*give kafka\.partit"):
        producer_options({**SERVERS, "partitioner.class": "org.example.Partitioner"})


def test_settings_of_the_jvm_are_in_the_table() -> None:
    for name in ("consumer.cache", "consumer.fetchedData.cache", "producer.cache", "clusters"):
        assert re.search(rf"\| `spark\.kafka\.{name}\.\*`.* \| \| no", PAGE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.location", "/k.jks"),
        ("key.deserializer", "x"),
        ("nonsense", "1"),
        ("fetch.min.bytes", "many"),
        ("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required;"),
    ],
)
def test_invalid_client_options_are_rejected(name: str, value: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=name):
        consumer_options({**SERVERS, name: value})


@pytest.mark.parametrize("names", [",", " , "])
def test_a_subscription_to_no_topic_is_rejected(names: str) -> None:
    """It would read nothing, and say nothing."""
    with pytest.raises(InvalidArgumentError, match="subscribe has no topic"):
        SourceOptions.parse(
            {"kafka.bootstrap.servers": "localhost:1", "subscribe": names}, streaming=False
        )


def test_secrets_are_hidden() -> None:
    options = {
        "subscribe": "a",
        "kafka.bootstrap.servers": "localhost:1",
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.key.password": "hush",
    }
    shown = repr(SourceOptions.parse(options, streaming=False)) + repr(
        SinkOptions.parse({key: value for key, value in options.items() if key != "subscribe"})
    )
    assert "cret" not in shown
    assert "hush" not in shown


def test_offsets_in_the_checkpoint() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    kept = StreamOffset(offsets).to_json()
    assert list(kept) == ["a", "b"]
    assert list(kept["b"]) == ["9", "10"]
    assert StreamOffset.from_json(kept) == StreamOffset(offsets)
    named = {TopicPartition("version", 0): 7}
    assert StreamOffset.from_json({"version": {"0": 7}}) == StreamOffset(named)
    for newer in (
        {"version": 3, "offsets": {"a": {"0": 3}}},
        {"a": {"0": 3}, "version 3 of tandem_kafka": {}},
        {"a": {"0": 3}, "id of a is in another form": {}, "version 3 of tandem_kafka": {}},
        {"a": {"0": 3}, "id of a is 7": {}, "a-x began at 0": {}, "version 3 of tandem_kafka": {}},
    ):
        with pytest.raises(
            InvalidArgumentError, match="offsets of version 3, which this version does not support"
        ):
            StreamOffset.from_json(newer)
    for other in (
        *({"a": {"x": 1}}, [], {"a": {"0": "1"}}),
        *({"id of a is 7": {}}, {"a-x began at 0": {}}, {"a-0 began at x": {}}),
    ):
        with pytest.raises(InvalidArgumentError, match="not support"):
            StreamOffset.from_json(other)


A_0, B_1 = TopicPartition("a", 0), TopicPartition("b", 1)
END = {A_0: 7, B_1: 2}
ID = UUID("0b2c3d4e-0000-4000-8000-00000000000a")


def test_what_the_connector_does_not_read_has_no_partitions() -> None:
    """It skips such keys, so that it can continue the checkpoint."""
    began = {A_0: 3, TopicPartition("a-1", 2): 4}
    kept = StreamOffset(END, {"a": ID, "gone": ID}, began).to_json()
    assert list(kept.items()) == [
        ("a", {"0": 7}),
        ("b", {"1": 2}),
        (f"id of a is {ID}", {}),
        ("a-0 began at 3", {}),
        ("a-1-2 began at 4", {}),
        ("version 2 of tandem_kafka", {}),
    ]
    found = StreamOffset.from_json(json.loads(json.dumps(kept)))
    assert found == StreamOffset(END, {"a": ID}, began)


def test_the_text_of_an_offset_does_not_depend_on_the_order_of_topics() -> None:
    """Spark compares it."""
    one = StreamOffset(END, {"a": ID, "b": ID}, END).to_json()
    other = StreamOffset(
        dict(reversed(END.items())), {"b": ID, "a": ID}, dict(reversed(END.items()))
    ).to_json()
    assert json.dumps(one) == json.dumps(other)


def test_a_checkpoint_of_version_1_is_read() -> None:
    kept = {"a": {"0": 7}, "b": {"1": 2}, "begin of a": {"0": 3}}
    assert StreamOffset.from_json(kept) == StreamOffset(END, beginning={A_0: 3})
    assert StreamOffset.from_json({"a": {"0": 7}, "begin of ": {}}) == StreamOffset(
        {A_0: 7}, beginning={}
    )


def test_a_topic_is_recreated_if_its_id_is_known_and_differs() -> None:
    before = StreamOffset(END, {"a": ID})
    assert before.recreated({"a": ID, "b": ID}) == {}
    assert before.recreated({}) == {}
    assert before.recreated({"a": UUID(int=5)}) == {"a": ID}


@pytest.mark.parametrize("limit", [1, 7, 100, 999])
def test_a_rate_limit_is_divided_in_proportion_to_the_backlog(limit: int) -> None:
    start = {TopicPartition("a", n): 0 for n in range(3)}
    end = {TopicPartition("a", 0): 10, TopicPartition("a", 1): 900, TopicPartition("a", 2): 0}
    found = rate_limited(limit, start, end)
    assert all(start[tp] <= at <= end[tp] for tp, at in found.items())
    assert abs(sum(found.values()) - min(limit, 910)) <= 2
    assert found.keys() == end.keys()


@pytest.mark.parametrize(
    "how",
    [{}, {"min_partitions": 7}, {"max_records": 10}, {"min_partitions": 50, "max_records": 33}],
)
def test_ranges_are_split_without_gaps(how: dict[str, Any]) -> None:
    whole = [OffsetRange("a", n, 5, 5 + size) for n, size in enumerate((0, 1, 100, 37))]
    parts = split(whole, **how)
    covered = sorted((part.tp, at) for part in parts for at in range(part.start, part.end))
    assert covered == [(each.tp, at) for each in whole for at in range(each.start, each.end)]
    assert all(part.size > 0 for part in parts)
    assert len(parts) >= how.get("min_partitions", 0) - 1
    assert all(part.size <= how.get("max_records", 100) for part in parts)
