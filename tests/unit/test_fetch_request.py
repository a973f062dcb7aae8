"""The fetch request, compared byte for byte with that of kafka-python."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.wire.fetch_request import (
    ConsumerFetch,
    FetchedTopic,
    ForgottenTopic,
    WantedPartition,
)
from tandem_kafka.wire.framing import encode_nullable, frame_request
from tandem_kafka.wire.messages import FetchRequest
from tandem_kafka.wire.versions import BrokerVersionData, choose_version

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
partitions = st.builds(WantedPartition, int32, int32, int64, int32)
topics = st.builds(FetchedTopic, names, st.uuids(), st.lists(partitions, max_size=150))
forgotten = st.builds(ForgottenTopic, names, st.uuids(), st.lists(int32, max_size=5))
fetches = st.builds(
    ConsumerFetch,
    max_wait_ms=int32,
    min_bytes=int32,
    max_bytes=int32,
    isolation_level=st.sampled_from([0, 1]),
    session_id=int32,
    session_epoch=int32,
    topics=st.lists(topics, max_size=3),
    forgotten_topics_data=st.lists(forgotten, max_size=3),
    rack_id=names,
)


def by_kafka_python(fetch: ConsumerFetch) -> Any:
    topic = FetchRequest.FetchTopic
    return FetchRequest(
        max_wait_ms=fetch.max_wait_ms,
        min_bytes=fetch.min_bytes,
        max_bytes=fetch.max_bytes,
        isolation_level=fetch.isolation_level,
        session_id=fetch.session_id,
        session_epoch=fetch.session_epoch,
        topics=[
            topic(
                topic=each.topic,
                topic_id=each.topic_id,
                partitions=[
                    topic.FetchPartition(
                        partition=p.partition,
                        current_leader_epoch=p.current_leader_epoch,
                        fetch_offset=p.fetch_offset,
                        partition_max_bytes=p.partition_max_bytes,
                    )
                    for p in each.partitions
                ],
            )
            for each in fetch.topics
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(
                topic=each.topic, topic_id=each.topic_id, partitions=list(each.partitions)
            )
            for each in fetch.forgotten_topics_data
        ],
        rack_id=fetch.rack_id,
    )


@pytest.mark.parametrize("version", range(FetchRequest.max_version + 1)[4:])
@given(fetch=fetches, correlation_id=st.integers(0, 2**31 - 1), client_id=st.none() | names)
def test_every_version_has_the_bytes_of_kafka_python(
    version: int, fetch: ConsumerFetch, correlation_id: int, client_id: str | None
) -> None:
    if version < 7:  # kafka-python does not encode values that a version lacks
        fetch.forgotten_topics_data = ()
    theirs = by_kafka_python(fetch)
    theirs.with_header(correlation_id=correlation_id, client_id=client_id)
    expected = theirs.encode(version=version, header=True, framed=True)
    assert frame_request(fetch, version, correlation_id, encode_nullable(client_id)) == expected


def test_it_has_the_interface_of_kafka_pythons_message() -> None:
    assert ConsumerFetch.max_version == FetchRequest.max_version
    assert ConsumerFetch.min_version == FetchRequest.valid_versions[0]
    assert ConsumerFetch.API_KEY == FetchRequest.API_KEY
    assert ConsumerFetch.name == FetchRequest.name
    for version in range(FetchRequest.max_version + 1):
        flexible = FetchRequest.flexible_version_q(version)
        assert ConsumerFetch.flexible_version_q(version) == flexible


def test_its_values_limit_its_version() -> None:
    broker = BrokerVersionData((4, 3), {FetchRequest.API_KEY: (4, 17)})
    assert choose_version(ConsumerFetch(500, 1, 1, 0, 0, -1, ()), broker) == 17
    assert choose_version(ConsumerFetch(500, 1, 1, 0, 0, -1, (), not_above=12), broker) == 12
