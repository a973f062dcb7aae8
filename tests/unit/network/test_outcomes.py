"""Each request has exactly one outcome, whatever happens to its connection and in callbacks."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict

import pytest

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import ANY_NODE, ClientResponse, Purpose, ToNode, UnsentRequest
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    FrameReceived,
    TransportEvent,
)
from tandem_kafka.wire.messages import MetadataRequest, MetadataResponse
from tests.unit.network.scripted import NODE_1, NODE_2, Network, Sent, api_versions, frame_of

_STEPS = 120


class Counted(Completion[ClientResponse]):
    """A future that counts its outcomes."""

    __slots__ = ("outcomes",)

    def __init__(self) -> None:
        super().__init__()
        self.outcomes = 0

    def complete(self, result: ClientResponse) -> None:
        self.outcomes += 1
        super().complete(result)

    def fail(self, error: BaseException) -> None:
        self.outcomes += 1
        super().fail(error)


def number_of(sent: Sent) -> int:
    found = re.search(rb"r(\d{6})", sent.frame)
    assert found is not None
    return int(found[1])


class Run:
    """A client among brokers that respond, are late, talk nonsense, and hang up."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - chance only
        self.network = Network(NODE_1, NODE_2, seed=seed, reconnect_backoff_ms=0)
        self.requests: list[UnsentRequest] = []
        self.cancelled: set[int] = set()
        self.resent: set[int] = set()
        self.unanswered: defaultdict[int, list[Sent]] = defaultdict(list)
        self.opened: set[int] = set()
        self.sent_on: dict[int, int] = {}
        self.answered: defaultdict[int, list[int]] = defaultdict(list)

    def request(self) -> None:
        number = len(self.requests)
        to_any = self.random.random() < 0.2
        purpose = self.random.choice([Purpose.MAIN, Purpose.GROUP])
        node = self.random.choice([NODE_1, NODE_2])
        topic = MetadataRequest.MetadataRequestTopic(name=f"r{number:06}")
        now_ms = self.network.now_ms
        future = Counted()
        unsent = UnsentRequest(
            message=MetadataRequest(topics=[topic]),
            destination=ANY_NODE if to_any else ToNode(node, purpose),
            deadline_ms=now_ms + self.random.choice([50, 2_000, 60_000]),
            timeout_ms=self.random.choice([100, 5_000, 30_000]),
            future=future,
        )
        if to_any:
            self.resent.add(number)  # perhaps: then a second outcome is ignored
        future.then(lambda _: self.done(number))
        self.requests.append(unsent)
        self.network.client.add(unsent)

    def done(self, number: int) -> None:
        future = self.requests[number].future
        if future.error is None and number not in self.cancelled:
            assert future.result().message.controller_id == number
            self.answered[self.sent_on[number]].append(number)
        chance = self.random.random()
        if chance < 0.1 and len(self.requests) < 5 * _STEPS:
            self.request()
        elif chance < 0.15:
            self.disconnect()
        elif chance < 0.2:
            self.cancel()

    def disconnect(self) -> None:
        self.network.client.disconnect(self.random.choice([1, 2]))

    def cancel(self) -> None:
        waiting = [n for n, each in enumerate(self.requests) if not each.future.done]
        if waiting:
            number = self.random.choice(waiting)
            self.cancelled.add(number)
            Completion.fail(self.requests[number].future, KafkaConnectionError("cancelled"))

    def note_sent(self) -> None:
        for sent in self.network.transport.take_sent():
            self.unanswered[sent.connection].append(sent)
            if sent.api_key != 18:
                self.sent_on[number_of(sent)] = sent.connection

    def event(self) -> TransportEvent | None:
        """Return what one connection does; it may have been closed already."""
        if not self.network.transport.addresses:
            return None
        connection = self.random.choice(list(self.network.transport.addresses)[-4:])
        if self.random.random() < 0.05:
            return ConnectionClosed(connection, KafkaConnectionError("cut"))
        if connection not in self.opened:
            self.opened.add(connection)
            return ConnectionOpened(connection)
        if not self.unanswered[connection]:
            return None
        return FrameReceived(connection, self.response_to(self.unanswered[connection].pop(0)))

    def response_to(self, sent: Sent) -> memoryview:
        if sent.api_key == 18:
            return frame_of(sent, api_versions())
        if self.random.random() < 0.03:
            return memoryview(b"nonsense")
        response = MetadataResponse(
            throttle_time_ms=0, brokers=[], topics=[], controller_id=number_of(sent)
        )
        return frame_of(sent, response)

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.4:
            self.request()
        elif chance < 0.43:
            self.disconnect()
        elif chance < 0.46:
            self.cancel()
        events = [self.event() for _ in range(self.random.randrange(6))]
        self.network.transport.events += [each for each in events if each is not None]
        self.network.iterate(after_ms=self.random.choice([0, 0, 1, 10, 200, 4_000]))
        self.note_sent()

    def end(self) -> None:
        self.network.client.close()

    def check(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for number, each in enumerate(self.requests):
            assert isinstance(each.future, Counted)
            assert each.future.done, f"request {number} has no outcome"
            counts[each.future.outcomes] += 1
            if number not in self.cancelled | self.resent:
                assert each.future.outcomes == 1, f"request {number}: {each.future.outcomes}"
        for numbers in self.answered.values():
            in_order = [number for number in numbers if number not in self.resent]
            assert in_order == sorted(in_order)
        return counts


def each_request_once(seed: int) -> Counter[int]:
    run = Run(seed)
    for _ in range(_STEPS):
        run.step()
    while not all(each.future.done for each in run.requests):
        before = len(run.requests)
        run.end()
        if len(run.requests) == before:
            break
    return run.check()


@pytest.mark.parametrize("seed", range(40))
def test_each_request_has_one_outcome(seed: int) -> None:
    assert each_request_once(seed).total() > _STEPS // 4
