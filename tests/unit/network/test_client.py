from __future__ import annotations

import pytest

from tandem_kafka.errors import KafkaConnectionError, KafkaTimeoutError, UnsupportedVersionError
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import Purpose
from tandem_kafka.network.transport import FrameReceived
from tandem_kafka.types import Node
from tandem_kafka.wire.messages import FetchRequest
from tests.unit.network.scripted import (
    BOOTSTRAP,
    NODE_1,
    NODE_2,
    Network,
    Sent,
    api_versions,
    error_of,
    frame_of,
    metadata_response,
)


def test_without_work_the_wait_is_unlimited() -> None:
    network = Network()
    assert network.iterate() == FOREVER_MS
    assert network.transport.addresses == {}
    assert (network.client.queued, network.client.in_flight) == (0, 0)


def test_a_request_opens_a_connection_and_gets_its_response() -> None:
    network = Network()
    unsent = network.request()
    assert (network.client.queued, network.client.in_flight) == (1, 0)
    network.iterate()
    assert network.transport.addresses[1].ip == "10.0.0.1"
    (sent,) = network.make_ready(1)
    assert (network.client.queued, network.client.in_flight) == (0, 1)
    network.now_ms += 40
    network.respond(sent, metadata_response())
    response = unsent.future.result()
    assert (response.node, response.version, response.latency_ms) == (NODE_1, 12, 40)
    assert (network.client.queued, network.client.in_flight) == (0, 0)
    counters = network.client.counters
    assert (counters.connections_opened, counters.requests_sent) == (1, 1)
    assert counters.responses_received == 1
    assert counters.bytes_in > 20
    assert counters.bytes_out > 20


def test_every_purpose_has_its_own_connection() -> None:
    network = Network()
    carrying = [purpose for purpose in Purpose if purpose is not Purpose.PROBE]
    for purpose in carrying:
        network.request(NODE_1, purpose)
        network.request(NODE_1, purpose)
    network.iterate()
    assert len(network.transport.addresses) == len(carrying)
    for number in network.transport.addresses:
        assert len(network.make_ready(number)) == 2
    network.request(NODE_1, Purpose.GROUP)
    network.iterate()
    assert len(network.transport.addresses) == len(carrying)


def test_no_more_in_flight_than_allowed_and_in_order() -> None:
    network = Network(max_in_flight_requests_per_connection=2)
    requests = [network.request() for _ in range(5)]
    network.iterate()
    sent = network.make_ready(1)
    assert len(sent) == 2
    assert (network.client.queued, network.client.in_flight) == (3, 2)
    for done in range(1, 6):
        network.respond(sent.pop(0), metadata_response())
        network.iterate()
        sent += network.transport.take_sent()
        assert [request.future.done for request in requests] == [True] * done + [False] * (5 - done)
        assert len(sent) <= 2
    assert all(request.future.error is None for request in requests)


def test_a_request_whose_future_ended_is_not_sent() -> None:
    network = Network()
    gone, wanted = network.request(), network.request()
    gone.future.fail(KafkaTimeoutError("the caller gave up"))
    network.iterate()
    assert len(network.make_ready(1)) == 1
    assert not wanted.future.done


def test_a_request_that_cannot_be_sent_in_time_fails_with_names() -> None:
    network = Network()
    to_node, to_any = network.request(deadline_ms=100), network.request(None, deadline_ms=200)
    assert network.iterate() <= 100
    assert network.iterate(after_ms=99) == 1
    assert network.iterate(after_ms=1) == 0  # a future is done, so the managers must be polled
    assert isinstance(error_of(to_node), KafkaTimeoutError)
    assert "MetadataRequest could not be sent to broker 1 (10.0.0.1:9092)" in str(error_of(to_node))
    network.iterate(after_ms=100)
    assert "to any broker" in str(error_of(to_any))


def test_only_an_unsupported_request_fails() -> None:
    network = Network()
    impossible, fine = network.request(message=FetchRequest(max_version=3)), network.request()
    network.iterate()
    assert len(network.make_ready(1)) == 1
    assert isinstance(error_of(impossible), UnsupportedVersionError)
    assert not fine.future.done


def test_any_node_prefers_the_connection_with_least_in_flight() -> None:
    network = Network(NODE_1, NODE_2)
    network.request(NODE_1)
    network.request(NODE_2)
    network.iterate()
    network.make_ready(1)
    (of_two,) = network.make_ready(2)
    network.respond(of_two, metadata_response())
    network.request(None)
    network.iterate()
    (sent,) = network.transport.take_sent()
    assert sent.connection == 2


def test_any_node_waits_for_a_connection_that_is_being_made() -> None:
    network = Network(NODE_1, NODE_2)
    network.request(NODE_1)
    network.iterate()
    network.request(None)
    network.iterate()
    assert len(network.transport.addresses) == 1
    assert len(network.make_ready(1)) == 2


def test_any_node_uses_another_broker_when_the_first_fails() -> None:
    network = Network(NODE_1, NODE_2)
    unsent = network.request(None)
    network.iterate()
    first = network.transport.addresses[1].ip
    network.cut(1)
    network.iterate()
    assert not unsent.future.done
    assert network.transport.addresses[2].ip != first
    (sent,) = network.make_ready(2)
    network.respond(sent, metadata_response())
    assert unsent.future.error is None


def test_any_node_uses_another_when_the_ready_one_is_full() -> None:
    network = Network(NODE_1, NODE_2, max_in_flight_requests_per_connection=1)
    network.request(NODE_1)
    network.iterate()
    network.make_ready(1)
    network.request(None)
    network.iterate()
    assert network.transport.addresses[2].ip == "10.0.0.2"


def test_any_node_asks_each_broker_in_turn_until_one_responds() -> None:
    network = Network(NODE_1, NODE_2, Node(3, "10.0.0.3", 9092))
    unsent = network.request(None)
    network.iterate()
    asked: dict[str, list[Sent]] = {}
    for number in (1, 2, 4):  # 3 is a probe of the first one
        address = network.transport.addresses[number].ip
        asked[address] = network.make_ready(number)
        for _ in range(33):
            network.iterate(after_ms=100)
            asked[address] += network.transport.take_sent()
    assert {address: len(sent) for address, sent in asked.items()} == {
        "10.0.0.1": 1,
        "10.0.0.2": 1,
        "10.0.0.3": 1,
    }
    (sent,) = asked[network.transport.addresses[4].ip]
    network.respond(sent, metadata_response())
    assert unsent.future.error is None


def test_bootstrap_connections_are_closed_once_brokers_are_known() -> None:
    network = Network(BOOTSTRAP)
    unsent = network.request(None)
    network.iterate()
    (sent,) = network.make_ready(1)
    unsent.future.then(lambda _: network.nodes.known.__setitem__(0, NODE_1))
    network.respond(sent, metadata_response())
    assert network.transport.open == {1}
    network.iterate()
    assert network.transport.open == set()


def test_a_throttled_connection_waits() -> None:
    network = Network()
    _, sent = network.send()
    network.respond(sent, metadata_response(throttle=300))
    network.request()
    assert network.iterate() == 300
    assert network.transport.take_sent() == []
    assert network.iterate(after_ms=299) == 1
    network.iterate(after_ms=1)
    assert len(network.transport.take_sent()) == 1


def test_idle_connections_are_closed_and_reopened() -> None:
    network = Network(connections_max_idle_ms=1000)
    _, sent = network.send()
    network.respond(sent, metadata_response())
    assert network.iterate() == 1000
    network.iterate(after_ms=999)
    assert network.transport.open == {1}
    network.iterate(after_ms=1)
    assert network.transport.open == set()
    network.request()
    network.iterate()  # immediately, because closing was no failure
    assert network.transport.open == {2}


def test_closing_of_idle_connections_can_be_disabled() -> None:
    network = Network(connections_max_idle_ms=-1)
    _, sent = network.send()
    network.respond(sent, metadata_response())
    assert network.iterate(after_ms=10**9) == FOREVER_MS
    assert network.transport.open == {1}


def test_a_moved_broker_gets_new_connections_immediately() -> None:
    network = Network()
    in_flight, _ = network.send()
    moved = Node(1, "10.0.0.77", 9093)
    network.nodes.known = [moved]
    assert network.iterate() == 0
    assert isinstance(error_of(in_flight), KafkaConnectionError)
    assert "moved to 10.0.0.77:9093" in str(error_of(in_flight))
    network.request(NODE_1)  # with the address of earlier metadata
    network.iterate()
    address = network.transport.addresses[2]
    assert (address.ip, address.port) == ("10.0.0.77", 9093)
    assert network.transport.open == {2}


def test_moving_ends_the_backoff() -> None:
    network = Network()
    network.request()
    network.iterate()
    network.cut(1)
    assert network.client.backoff_until_ms(NODE_1) > network.now_ms
    network.nodes.known = [Node(1, "10.0.0.77", 9092)]
    network.iterate()
    assert network.client.backoff_until_ms(network.nodes.known[0]) <= network.now_ms


def test_disconnect_fails_requests_in_flight_in_the_next_iteration() -> None:
    network = Network()
    unsent, _ = network.send()
    network.client.disconnect(1)
    assert not unsent.future.done
    assert network.iterate() == 0
    assert isinstance(error_of(unsent), KafkaConnectionError)
    assert network.transport.open == set()


def test_close_fails_everything() -> None:
    network = Network()
    in_flight, _ = network.send()
    queued, anywhere = network.request(NODE_2), network.request(None)
    network.client.close()
    for unsent in (in_flight, queued, anywhere):
        assert isinstance(error_of(unsent), KafkaConnectionError)
    assert network.transport.closed
    assert (network.client.queued, network.client.in_flight) == (0, 0)


def test_events_of_closed_connections_are_ignored() -> None:
    network = Network()
    _, sent = network.send()
    network.client.disconnect(1)
    network.deliver(FrameReceived(1, frame_of(sent, metadata_response())))
    assert network.client.counters.responses_received == 0


def test_the_end_of_a_former_connection_leaves_the_present_one() -> None:
    network = Network()
    network.send()
    network.client.disconnect(1)
    late, sent = network.send(2)
    network.cut(1)
    assert not late.future.done
    network.request()
    network.iterate()
    assert [each.connection for each in network.transport.take_sent()] == [2]
    network.respond(sent, metadata_response())
    assert late.future.error is None


def test_the_request_with_the_earliest_deadline_times_out_first() -> None:
    network = Network()
    network.request(timeout_ms=20_000)
    hurried = network.request(timeout_ms=2_000)
    network.iterate()
    network.make_ready(1)
    network.iterate(after_ms=1_999)
    assert not hurried.future.done
    network.iterate(after_ms=1)
    assert "within 2000 ms" in str(error_of(hurried))


def test_a_callback_may_add_and_disconnect() -> None:
    network = Network()
    first, sent = network.send()
    added = []

    def callback(_: object) -> None:
        network.client.disconnect(1)
        added.append(network.request())

    first.future.then(callback)
    network.respond(sent, metadata_response())
    assert first.future.error is None
    network.iterate()
    (again,) = network.make_ready(2)
    network.respond(again, metadata_response())
    assert added[0].future.error is None


@pytest.mark.parametrize("state", ["idle", "connecting", "negotiating", "in flight", "full"])
def test_prepare_never_causes_spinning(state: str) -> None:
    network = Network(NODE_1, NODE_2, max_in_flight_requests_per_connection=1)
    if state != "idle":
        network.request()
        network.iterate()
    if state == "negotiating":
        network.open(1)
    elif state in {"in flight", "full"}:
        network.make_ready(1)
    if state == "full":
        network.request()
        network.request()
    waits = [network.iterate() for _ in range(1000)]
    assert min(waits) > 1000


def test_an_hour_without_brokers_takes_few_iterations() -> None:
    network = Network(NODE_1, NODE_2)
    hour_ms = network.now_ms + 3_600_000
    turns = 0
    network.request(None, deadline_ms=4_000_000)
    while network.now_ms < hour_ms:
        wait_ms = network.iterate()
        turns += 1
        for number in list(network.transport.open):
            network.cut(number)
        network.now_ms += wait_ms
    assert turns < 4 * 3600  # one attempt per second


def test_versions_may_be_rejected_during_setup() -> None:
    network = Network()
    unsent = network.request()
    network.iterate()
    network.open(1)
    (asked,) = network.transport.take_sent()
    refusal = type(asked)(1, 18, 0, asked.correlation_id, b"")
    network.respond(refusal, api_versions({18: (0, 3)}, error_code=35))
    (again,) = network.transport.take_sent()
    assert again.version == 3
    network.respond(again, api_versions())
    network.iterate()
    (sent,) = network.transport.take_sent()
    network.respond(sent, metadata_response())
    assert unsent.future.error is None


def test_connections_that_never_opened_do_not_count_as_closed() -> None:
    network = Network()
    for number in range(1, 8):
        network.request()
        network.iterate(after_ms=2_000)
        network.cut(number)
    counters = network.client.counters
    assert (counters.connections_opened, counters.connections_closed) == (0, 0)
    assert counters.connections_failed == 7
    network.request()
    network.iterate(after_ms=2_000)
    network.make_ready(8)
    assert (counters.connections_opened, counters.connections_closed) == (1, 0)
    network.cut(8)
    assert (counters.connections_opened, counters.connections_closed) == (1, 1)


def test_managers_are_polled_when_a_broker_falls_silent_and_when_it_responds_again() -> None:
    network = Network()
    state = network.client._pool.state(NODE_1)
    for silent in (True, False):
        state.silent = silent
        assert network.client.prepare(0) == 0
        assert network.nodes.unreachable == ({NODE_1.node_id} if silent else set())
        assert network.client.prepare(0) > 0
