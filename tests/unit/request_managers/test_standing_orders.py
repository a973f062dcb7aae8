"""Orders to repeat a fetch: what ends them, and what Python takes over from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tandem_kafka.network.request import Purpose, SentRequest, UnsentRequest
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.fetching.response_handler import RequestedPartition
from tandem_kafka.request_managers.fetching.session import FetchSession, FetchTarget
from tandem_kafka.request_managers.fetching.slot import FetchSlot
from tandem_kafka.runtime.native import native
from tandem_kafka.shared.partition import AssignedPartition, Position
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.fetch_request import HIGHEST_VERSION
from tests.unit.records.making import GZIP, Rec, batch
from tests.unit.request_managers.fetching import (
    Found,
    chunks,
    fetch_response,
    forgotten,
    records,
    requested_offsets,
    send,
)
from tests.unit.request_managers.test_fetch_placement import by_purpose
from tests.unit.request_managers.world import TOPIC_ID, World

needs_native = pytest.mark.skipif(native is None, reason="only native code repeats fetches")

ALL = [TopicPartition("orders", number) for number in range(4)]
END = 10

# --- a slot --------------------------------------------------------------------------------------


def partition(number: int) -> tuple[RequestedPartition, FetchTarget]:
    state = AssignedPartition(TopicPartition("orders", number))
    state.set_position(Position(END))
    assert state.base is not None
    requested = RequestedPartition(state, state.base, END, 1_000, False, False)
    return requested, FetchTarget(TOPIC_ID, END, 3, 1_000)


def slot_of_two() -> FetchSlot:
    world = World()
    session = FetchSession(incremental=True)
    state = RequestState(world.context.backoff())
    slot = FetchSlot(1, Purpose.FETCH_0, session, state, world.buffer.queue.reserve)
    for number in range(2):
        requested, target = partition(number)
        slot.add(requested.state)
        slot.checked(requested.state)
        slot.include(requested, target)
    slot.next_request()
    return slot


def held(slot: FetchSlot) -> Any:
    """All that an order of the slot depends on."""
    session: Any = slot.session
    parts = set(slot.partitions), dict(slot.to_check), dict(slot.requested)
    return *parts, dict(session._partitions), dict(session._forgotten)


def first(slot: FetchSlot) -> AssignedPartition:
    return next(iter(slot.requested.values())).state


CHANGES: dict[str, Callable[[FetchSlot], object]] = {
    "place": lambda slot: slot.place([first(slot)]),
    "add": lambda slot: slot.add(partition(2)[0].state),
    "remove": lambda slot: slot.remove(first(slot)),
    "note": lambda slot: slot.note(first(slot)),
    "include": lambda slot: slot.include(*partition(2)),
    "exclude": lambda slot: slot.exclude(first(slot).tp),
    "arrived": lambda slot: slot.arrived(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_slot_ends_its_order_before(change: Callable[[FetchSlot], object]) -> None:
    slot, seen = slot_of_two(), []
    before = held(slot)
    slot.stand(lambda: seen.append(held(slot)))
    change(slot)
    assert seen == [before], "it ended once, when nothing had changed"
    assert not slot.standing
    assert not slot.settled, "and the request in flight gets no other order"


def test_no_other_method_changes_a_slot() -> None:
    methods = {n for n, what in vars(FetchSlot).items() if callable(what) and n[0] != "_"}
    harmless = {"stand", "end_order", "repeated", "checked", "next_request", "expect", "reserve"}
    assert methods - harmless == set(CHANGES)


def test_an_order_that_ends_leaves_alone_what_has_gone() -> None:
    slot = slot_of_two()
    gone, here = slot.requested.values()
    slot.remove(gone.state)
    assert slot.repeated(5, [(gone, 12, 2_000), (here, 13, 2_000)]) == [here.state]
    assert list(slot.requested) == [here.state.tp]
    assert slot.requested[here.state.tp].offset == slot.session.target(here.state.tp).offset == 13
    assert slot.session.epoch == 5


# --- the manager ---------------------------------------------------------------------------------


class Standing:
    """A world whose fetches may stand; the test is the transport."""

    def __init__(self, *, high_watermark: int = END, **options: Any) -> None:
        assert native is not None
        self.world = World(leaders=(1,) * len(ALL), bell=native.Bell(), **options)
        self.world.assign(*ALL, at=END)
        self.sent: dict[Purpose, UnsentRequest] = {}
        for number, (purpose, unsent) in enumerate(by_purpose(send(self.world)).items()):
            tps = [tp for tp in ALL if tp.partition in requested_offsets(unsent)]
            found = {tp: Found(high_watermark=high_watermark) for tp in tps}
            self.world.respond(unsent, fetch_response(found, session_id=70 + number))
            self.sent[purpose] = unsent
        self.sent |= by_purpose(send(self.world, after_ms=1_000))

    def order(self, purpose: Purpose, usable_ms: int = 60_000) -> Any:
        """Tell the manager that a fetch was sent; return the order to repeat it."""
        make = self.sent[purpose].standing
        assert make is not None
        traffic = self.world.context.metrics.traffic("1")
        return make(SentRequest(HIGHEST_VERSION, 7, usable_ms, traffic))

    def respond(
        self, order: Any, purpose: Purpose, found: dict[TopicPartition, Found], took_ms: int = 50
    ) -> bytes | None:
        session_id = 70 + (purpose is Purpose.FETCH_1)
        body = fetch_response(found, session_id=session_id).encode(version=HIGHEST_VERSION)
        request: bytes | None = order.respond((7).to_bytes(4, "big") + b"\0" + body, took_ms)
        return request

    @property
    def standing(self) -> list[Purpose]:
        slots = self.world.managers.fetch._placement.slots
        return [purpose for (_, purpose), slot in slots.items() if slot.standing]


BOTH = [Purpose.FETCH_0, Purpose.FETCH_1]


def of(*states: tuple[int, int, int]) -> dict[TopicPartition, Found]:
    """What a response brings: for each partition its number, first offset and size in bytes."""
    return {
        ALL[number]: Found(records(offset, 1, size=size), high_watermark=offset + 1)
        for number, offset, size in states
    }


@needs_native
def test_a_partition_on_the_bypass_ends_all_orders_of_its_broker() -> None:
    """Only the next requests of the busy slots take it back."""
    standing = Standing()
    world = standing.world
    orders = [standing.order(purpose) for purpose in BOTH]
    assert all(orders)
    assert standing.standing == BOTH
    fetch = world.managers.fetch
    fetch._seen_versions, placement = None, fetch._placement
    placement.bypass(placement.slots[1, Purpose.FETCH_0], world.subscription.get(ALL[0]))
    assert standing.standing == []
    (beside,) = by_purpose(send(world))
    assert beside is Purpose.FETCH_BYPASS
    world.respond(standing.sent[Purpose.FETCH_1], fetch_response({}, session_id=71))
    standing.sent |= by_purpose(send(world, after_ms=1_000))
    assert standing.order(Purpose.FETCH_1) is None, "the bypass still has a partition"


@needs_native
def test_a_change_between_a_request_and_its_sending_prevents_an_order() -> None:
    standing = Standing()
    slots = standing.world.managers.fetch._placement.slots
    slots[1, Purpose.FETCH_0].note(standing.world.subscription.get(ALL[0]))
    assert standing.order(Purpose.FETCH_0) is None
    assert standing.order(Purpose.FETCH_1) is not None


@needs_native
def test_no_partition_waits_for_a_fetch_that_an_order_has_parked() -> None:
    """The order was made when there was more to fetch, and has caught up since."""
    standing = Standing(high_watermark=END + 1)
    order = standing.order(Purpose.FETCH_0)
    found = of((0, END, 5), (2, END, 5))
    assert standing.respond(order, Purpose.FETCH_0, found) is not None
    standing.world.managers.positions.seek(ALL[2], 3, -1)
    (beside,) = send(standing.world)
    assert requested_offsets(beside) == {2: 3}


@needs_native
def test_what_a_fetch_in_flight_may_bring_stays_reserved_after_its_order() -> None:
    standing = Standing(high_watermark=END + 1)
    reserved = standing.world.buffer.reserved_bytes
    assert standing.order(Purpose.FETCH_0) is not None
    assert standing.world.buffer.reserved_bytes == reserved > 0
    standing.world.subscription.get(ALL[1]).paused = True
    standing.world.managers.fetch.end_changed_orders()
    assert standing.standing == []
    assert standing.world.buffer.reserved_bytes == reserved


@needs_native
def test_an_order_that_fails_to_end_keeps_no_other_standing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    standing = Standing()
    world = standing.world
    orders = [standing.order(purpose) for purpose in BOTH]
    answered = standing.respond(orders[0], Purpose.FETCH_0, of((0, END, 5)))
    assert answered is not None
    metrics = world.context.metrics
    sources = len(metrics.sources)
    record_all = metrics.record_all

    def fail(*_: Any) -> None:
        monkeypatch.setattr(metrics, "record_all", record_all)
        raise ZeroDivisionError

    monkeypatch.setattr(metrics, "record_all", fail)
    world.subscription.get(ALL[0]).paused = True
    with pytest.raises(ZeroDivisionError):
        world.managers.fetch.end_changed_orders()
    assert standing.standing == []
    assert len(metrics.sources) == sources - 2, "nothing is collected from them any more"
    assert world.subscription.get(ALL[0]).read_ahead == END + 1
    world.managers.fetch.end_changed_orders()
    for order, purpose in zip(orders, BOTH, strict=True):
        assert standing.respond(order, purpose, of((3, END, 5))) is None, "it has ended"


@needs_native
def test_an_order_lasts_no_longer_than_the_session_of_its_connection() -> None:
    standing = Standing()
    order = standing.order(Purpose.FETCH_0, usable_ms=1_000)
    found = of((0, END, 5))
    assert standing.respond(order, Purpose.FETCH_0, found, took_ms=900) is not None
    assert standing.respond(order, Purpose.FETCH_0, of((0, END + 1, 5)), took_ms=100) is None


@needs_native
def test_an_order_lasts_no_longer_than_a_minute() -> None:
    standing = Standing()
    order = standing.order(Purpose.FETCH_0, usable_ms=2**40)
    for number in range(99):
        found = of((0, END + number, 5))
        assert standing.respond(order, Purpose.FETCH_0, found, took_ms=600) is not None
    assert standing.respond(order, Purpose.FETCH_0, of((0, END + 99, 5)), took_ms=600) is None


@needs_native
def test_a_seek_in_between_wins() -> None:
    """The order would end before; it does not move a position that is not its own either."""
    standing = Standing()
    order = standing.order(Purpose.FETCH_0)
    standing.world.managers.positions.seek(ALL[0], 3, -1)
    assert standing.respond(order, Purpose.FETCH_0, of((0, END, 5))) is None
    assert standing.world.subscription.get(ALL[0]).read_ahead == 3


@needs_native
def test_partitions_that_an_order_has_filled_count_as_busy() -> None:
    """With many partitions, the others move to the slot of the quiet ones."""
    standing = Standing()
    world = standing.world
    order = standing.order(Purpose.FETCH_0)
    assert standing.respond(order, Purpose.FETCH_0, of((2, END, 5))) is not None
    world.subscription.get(ALL[3]).paused = True
    world.managers.fetch.end_changed_orders()
    slot = world.managers.fetch._placement.slots[1, Purpose.FETCH_0]
    assert slot.active == {world.subscription.get(ALL[2])}


# --- the buffer ----------------------------------------------------------------------------------

ROOM = 100_000
SMALL = {"fetch_buffer_max_bytes": ROOM, "max_partition_fetch_bytes": 1_000}


@needs_native
def test_partitions_that_an_order_has_filled_get_their_share() -> None:
    """With two partitions in the buffer, neither is fetched beyond a half of it."""
    standing = Standing(**SMALL)
    world = standing.world
    order = standing.order(Purpose.FETCH_0)
    found = of((0, END, 60_000), (2, END, 5_000))
    assert standing.respond(order, Purpose.FETCH_0, found) is not None
    world.subscription.get(ALL[3]).paused = True
    send(world)
    assert standing.standing == []
    world.respond(standing.sent[Purpose.FETCH_0], fetch_response({}, session_id=70))
    requests = by_purpose(send(world, after_ms=1_000))
    assert forgotten(requests[Purpose.FETCH_0]) == [0]


@needs_native
def test_a_partition_gets_no_more_than_its_share_from_an_order() -> None:
    standing = Standing(**SMALL)
    world = standing.world
    unsent = standing.sent[Purpose.FETCH_0]
    world.respond(unsent, fetch_response(of((0, END, 5), (2, END, 5)), session_id=70))
    standing.sent |= by_purpose(send(world, after_ms=1_000))
    order = standing.order(Purpose.FETCH_0)
    repeat = partial(standing.respond, order, Purpose.FETCH_0)
    assert repeat(of((0, END + 1, 30_000))) is not None
    assert repeat(of((0, END + 2, 30_000))) is None, "its half of the buffer would be exceeded"


@needs_native
def test_what_another_order_may_bring_is_reserved() -> None:
    standing = Standing(high_watermark=END + 1, **{**SMALL, "max_partition_fetch_bytes": 30_000})
    orders = [standing.order(purpose) for purpose in BOTH]
    assert all(orders)
    assert standing.world.buffer.reserved_bytes >= 2 * 30_000
    found = of((0, END, 55_000))
    assert standing.respond(orders[0], Purpose.FETCH_0, found) is None
    assert standing.respond(orders[1], Purpose.FETCH_1, of((1, END, 55_000))) is not None, (
        "the first order has ended and reserves nothing"
    )


@needs_native
def test_what_python_reserves_later_counts_for_an_order() -> None:
    standing = Standing()
    order = standing.order(Purpose.FETCH_0)
    slots = standing.world.managers.fetch._placement.slots
    slots[1, Purpose.FETCH_1].reserve(standing.world.config.fetch_buffer_max_bytes)
    assert standing.respond(order, Purpose.FETCH_0, of((0, END, 5))) is None


@needs_native
def test_what_an_order_decodes_ahead_fits_into_the_buffer() -> None:
    standing = Standing(**SMALL)
    order = standing.order(Purpose.FETCH_0)
    data = batch([Rec(value=b"v" * 5 * ROOM)], END, codec=GZIP, epoch=3)
    found = {ALL[0]: Found(data, high_watermark=END + 1)}
    assert standing.respond(order, Purpose.FETCH_0, found) is not None
    assert standing.world.buffer.held_bytes < ROOM
    (chunk,) = chunks(standing.world)
    assert chunk.reader is not None
    (record,) = chunk.reader.take(1)
    assert record.value == b"v" * 5 * ROOM
