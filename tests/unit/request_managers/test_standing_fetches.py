"""Standing fetches to repeat a fetch: what ends them, and what Python takes over from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from tandem_kafka.network.request import Purpose, SentRequest, UnsentRequest
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.fetching.response_handler import RequestedPartition
from tandem_kafka.request_managers.fetching.session import FetchSession, FetchTarget
from tandem_kafka.request_managers.fetching.sizing import FIRST_BYTES
from tandem_kafka.request_managers.fetching.slot import FetchSlot
from tandem_kafka.runtime.native import native
from tandem_kafka.state.partition import AssignedPartition, Position, PreferredReplica
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
MANY = [TopicPartition("orders", number) for number in range(120)]
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
    """All that a standing fetch of the slot depends on."""
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
    assert not slot.settled, "and the request in flight does not stand again"


def test_no_other_method_changes_a_slot() -> None:
    methods = {n for n, what in vars(FetchSlot).items() if callable(what) and n[0] != "_"}
    harmless = {
        "stand",
        "end_standing_fetch",
        "repeated",
        "checked",
        "next_request",
        "expect",
        "reserve",
    }
    harmless |= {"brought", "quiet_moved"}
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


class RepeatingWorld:
    """A world whose fetches may stand; the test is the transport."""

    def __init__(
        self,
        partitions: Sequence[TopicPartition] = ALL,
        *,
        high_watermark: int = END,
        **options: Any,
    ) -> None:
        assert native is not None
        self.world = World(leaders=(1,) * len(partitions), notifier=native.Notifier(), **options)
        self.world.assign(*partitions, at=END)
        self.sent: dict[Purpose, UnsentRequest] = {}
        for number, (purpose, unsent) in enumerate(by_purpose(send(self.world)).items()):
            tps = [tp for tp in partitions if tp.partition in requested_offsets(unsent)]
            found = {tp: Found(high_watermark=high_watermark) for tp in tps}
            self.world.respond(unsent, fetch_response(found, session_id=70 + number))
            self.sent[purpose] = unsent
        self.sent |= by_purpose(send(self.world, after_ms=1_000))

    def stand(self, purpose: Purpose, usable_ms: int = 60_000) -> Any:
        """Tell the manager that a fetch was sent; return the standing fetch to repeat it."""
        make = self.sent[purpose].make_standing_fetch
        assert make is not None
        traffic = self.world.context.metrics.traffic("1")
        return make(SentRequest(HIGHEST_VERSION, 7, usable_ms, traffic))

    def respond(
        self, fetch: Any, purpose: Purpose, found: dict[TopicPartition, Found], took_ms: int = 50
    ) -> bytes | None:
        session_id = 70 + (purpose is Purpose.FETCH_1)
        body = fetch_response(found, session_id=session_id).encode(version=HIGHEST_VERSION)
        request: bytes | None = fetch.respond((7).to_bytes(4, "big") + b"\0" + body, took_ms)
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
    repeating = RepeatingWorld()
    world = repeating.world
    fetches = [repeating.stand(purpose) for purpose in BOTH]
    assert all(fetches)
    assert repeating.standing == BOTH
    fetch = world.managers.fetch
    fetch._seen_versions, placement = None, fetch._placement
    placement.bypass(placement.slots[1, Purpose.FETCH_0], world.subscription.get(ALL[0]))
    assert repeating.standing == []
    (beside,) = by_purpose(send(world))
    assert beside is Purpose.FETCH_BYPASS
    world.respond(repeating.sent[Purpose.FETCH_1], fetch_response({}, session_id=71))
    repeating.sent |= by_purpose(send(world, after_ms=1_000))
    assert repeating.stand(Purpose.FETCH_1) is None, "the bypass still has a partition"


@needs_native
def test_a_change_between_a_request_and_its_sending_prevents_an_order() -> None:
    repeating = RepeatingWorld()
    slots = repeating.world.managers.fetch._placement.slots
    slots[1, Purpose.FETCH_0].note(repeating.world.subscription.get(ALL[0]))
    assert repeating.stand(Purpose.FETCH_0) is None
    assert repeating.stand(Purpose.FETCH_1) is not None


@needs_native
def test_no_partition_waits_for_a_fetch_that_an_order_has_parked() -> None:
    """The standing fetch was made when there was more to fetch, and has caught up since."""
    repeating = RepeatingWorld(high_watermark=END + 1)
    fetch = repeating.stand(Purpose.FETCH_0)
    found = of((0, END, 5), (2, END, 5))
    assert repeating.respond(fetch, Purpose.FETCH_0, found) is not None
    repeating.world.managers.positions.seek(ALL[2], 3, -1)
    (beside,) = send(repeating.world)
    assert requested_offsets(beside) == {2: 3}


@needs_native
def test_what_an_order_has_found_out_is_taken_over() -> None:
    repeating = RepeatingWorld()
    world = repeating.world
    fetch = repeating.stand(Purpose.FETCH_0)
    world.metadata._hinted.update(ALL)
    found = of((0, END, FIRST_BYTES), (2, END, 5))
    assert repeating.respond(fetch, Purpose.FETCH_0, found) is not None
    world.subscription.get(ALL[3]).paused = True
    world.managers.fetch.end_changed_fetches()
    sizes = [world.subscription.get(tp).fetch_bytes for tp in ALL]
    assert sizes == [2 * FIRST_BYTES, 0, 0, 0]
    assert world.metadata._hinted == {ALL[1], ALL[3]}, "the leaders of the others have answered"


@needs_native
def test_what_a_fetch_in_flight_may_bring_stays_reserved_after_its_order() -> None:
    repeating = RepeatingWorld(high_watermark=END + 1)
    reserved = repeating.world.buffer.queue.reserved_bytes
    assert repeating.stand(Purpose.FETCH_0) is not None
    assert repeating.world.buffer.queue.reserved_bytes == reserved > 0
    repeating.world.subscription.get(ALL[1]).paused = True
    repeating.world.managers.fetch.end_changed_fetches()
    assert repeating.standing == []
    assert repeating.world.buffer.queue.reserved_bytes == reserved


@needs_native
def test_an_order_that_fails_to_end_keeps_no_other_standing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repeating = RepeatingWorld()
    world = repeating.world
    fetches = [repeating.stand(purpose) for purpose in BOTH]
    answered = repeating.respond(fetches[0], Purpose.FETCH_0, of((0, END, 5)))
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
        world.managers.fetch.end_changed_fetches()
    assert repeating.standing == []
    assert len(metrics.sources) == sources - 2, "nothing is collected from them any more"
    assert world.subscription.get(ALL[0]).read_ahead == END + 1
    world.managers.fetch.end_changed_fetches()
    for fetch, purpose in zip(fetches, BOTH, strict=True):
        assert repeating.respond(fetch, purpose, of((3, END, 5))) is None, "it has ended"


@needs_native
@pytest.mark.parametrize(
    ("usable_ms", "leases_ms"),
    [
        (1_000, {}),  # the session of its connection
        (1_000, {0: 9_000}),
        (60_000, {2: 1_000}),  # a replica
        (60_000, {0: 1_000, 2: 9_000}),
        (60_000, {0: 9_000, 2: 1_000}),
    ],
)
def test_an_order_lasts_no_longer_than_what_ends_first(
    usable_ms: int, leases_ms: dict[int, int]
) -> None:
    repeating = RepeatingWorld()
    for number, lease_ms in leases_ms.items():
        replica = PreferredReplica(1, repeating.world.clock.now_ms() + lease_ms)
        repeating.world.subscription.get(ALL[number]).preferred_replica = replica
    fetch = repeating.stand(Purpose.FETCH_0, usable_ms)
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END, 5)), took_ms=900) is not None
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END + 1, 5)), took_ms=100) is None


@needs_native
def test_an_order_lasts_no_longer_than_a_minute() -> None:
    repeating = RepeatingWorld()
    fetch = repeating.stand(Purpose.FETCH_0, usable_ms=2**40)
    for number in range(99):
        found = of((0, END + number, 5))
        assert repeating.respond(fetch, Purpose.FETCH_0, found, took_ms=600) is not None
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END + 99, 5)), took_ms=600) is None


@needs_native
def test_an_order_of_many_partitions_lasts_until_quiet_ones_may_move() -> None:
    repeating = RepeatingWorld(MANY)
    fetch = repeating.stand(Purpose.FETCH_0)
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END, 5)), took_ms=600) is not None
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END + 1, 5)), took_ms=600) is None


@needs_native
def test_when_quiet_partitions_move_those_that_an_order_has_filled_stay() -> None:
    repeating = RepeatingWorld(MANY)
    fetch = repeating.stand(Purpose.FETCH_0)
    found = of((0, END, 5), (2, END, 5))
    assert repeating.respond(fetch, Purpose.FETCH_0, found) is not None
    fetch = repeating.world.managers.fetch
    placement, now_ms = fetch._placement, repeating.world.clock.now_ms() + 1_000
    quiet = placement._slot(1, Purpose.FETCH_QUIET)
    placement.prepare_to_send(quiet, now_ms)
    assert repeating.standing == []
    stayed = {ALL[0], ALL[2]}
    assert {state.tp for state in placement.slots[1, Purpose.FETCH_0].partitions} == stayed
    assert quiet.partitions >= {repeating.world.subscription.get(tp) for tp in MANY[4:60:2]}


@needs_native
@pytest.mark.parametrize("offset", [3, END + 5])
def test_a_seek_in_between_wins(offset: int) -> None:
    """The fetch would end before; it does not move a position that is not its own either."""
    repeating = RepeatingWorld()
    fetch = repeating.stand(Purpose.FETCH_0)
    repeating.world.managers.positions.seek(ALL[0], offset, -1)
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END, 5))) is None
    assert repeating.world.subscription.get(ALL[0]).read_ahead == offset


@needs_native
def test_partitions_that_an_order_has_filled_count_as_busy() -> None:
    """With many partitions, the others move to the slot of the quiet ones."""
    repeating = RepeatingWorld()
    world = repeating.world
    fetch = repeating.stand(Purpose.FETCH_0)
    assert repeating.respond(fetch, Purpose.FETCH_0, of((2, END, 5))) is not None
    world.subscription.get(ALL[3]).paused = True
    world.managers.fetch.end_changed_fetches()
    slot = world.managers.fetch._placement.slots[1, Purpose.FETCH_0]
    assert slot.active == {world.subscription.get(ALL[2])}


# --- the buffer ----------------------------------------------------------------------------------

ROOM = 100_000
#: The next request, if a standing fetch holds it.
HELD = b""
SMALL = {"fetch_buffer_max_bytes": ROOM, "max_partition_fetch_bytes": 1_000}


@needs_native
def test_partitions_that_an_order_has_filled_get_their_share() -> None:
    """With two partitions in the buffer, neither is fetched beyond a half of it."""
    repeating = RepeatingWorld(**SMALL)
    world = repeating.world
    fetch = repeating.stand(Purpose.FETCH_0)
    found = of((0, END, 60_000), (2, END, 5_000))
    assert repeating.respond(fetch, Purpose.FETCH_0, found) is not None
    world.subscription.get(ALL[3]).paused = True
    send(world)
    assert repeating.standing == []
    world.respond(repeating.sent[Purpose.FETCH_0], fetch_response({}, session_id=70))
    requests = by_purpose(send(world, after_ms=1_000))
    assert forgotten(requests[Purpose.FETCH_0]) == [0]


@needs_native
def test_a_partition_gets_no_more_than_its_share_from_an_order() -> None:
    repeating = RepeatingWorld(**SMALL)
    world = repeating.world
    unsent = repeating.sent[Purpose.FETCH_0]
    world.respond(unsent, fetch_response(of((0, END, 5), (2, END, 5)), session_id=70))
    repeating.sent |= by_purpose(send(world, after_ms=1_000))
    fetch = repeating.stand(Purpose.FETCH_0)
    repeat = partial(repeating.respond, fetch, Purpose.FETCH_0)
    assert repeat(of((0, END + 1, 30_000))) is not None
    assert repeat(of((0, END + 2, 30_000))) is None, "its half of the buffer would be exceeded"


@needs_native
def test_what_another_order_may_bring_is_reserved() -> None:
    repeating = RepeatingWorld(
        high_watermark=END + 1, **{**SMALL, "max_partition_fetch_bytes": 30_000}
    )
    fetches = [repeating.stand(purpose) for purpose in BOTH]
    assert all(fetches)
    assert repeating.world.buffer.queue.reserved_bytes >= 2 * 30_000
    found = of((0, END, 55_000))
    assert repeating.respond(fetches[0], Purpose.FETCH_0, found) == HELD
    assert repeating.respond(fetches[1], Purpose.FETCH_1, of((1, END, 20_000))) not in {
        None,
        HELD,
    }, "the first one holds its request and reserves nothing"


@needs_native
def test_an_order_that_ends_while_it_holds_its_request_leaves_nothing_in_flight() -> None:
    repeating = RepeatingWorld(**SMALL)
    world = repeating.world
    fetch = repeating.stand(Purpose.FETCH_0)
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END, ROOM))) == HELD
    assert fetch.hand_over() is None
    world.subscription.get(ALL[2]).paused = True
    world.managers.fetch.end_changed_fetches()
    slot = world.managers.fetch._placement.slots[1, Purpose.FETCH_0]
    epoch = slot.session.epoch
    frame, _ = fetch.hand_over()
    empty = fetch_response({}, session_id=70)
    assert frame == (7).to_bytes(4, "big") + b"\0" + empty.encode(version=HIGHEST_VERSION)
    world.respond(repeating.sent[Purpose.FETCH_0], empty)
    assert slot.session.epoch == epoch + 1
    assert world.buffer.queue.reserved_bytes == 0
    (chunk,) = chunks(world)
    assert chunk.reader is not None
    assert [record.offset for record in chunk.reader.take(9)] == [END]
    world.buffer.queue.released_bytes = world.buffer.added_bytes
    chunk.partition.released_bytes = chunk.partition.buffered_bytes
    request = by_purpose(send(world, after_ms=1_000))[Purpose.FETCH_0]
    assert requested_offsets(request) == {0: END + 1}
    assert forgotten(request) == [2]


@needs_native
def test_what_python_reserves_later_counts_for_an_order() -> None:
    repeating = RepeatingWorld()
    fetch = repeating.stand(Purpose.FETCH_0)
    slots = repeating.world.managers.fetch._placement.slots
    slots[1, Purpose.FETCH_1].reserve(repeating.world.config.fetch_buffer_max_bytes)
    assert repeating.respond(fetch, Purpose.FETCH_0, of((0, END, 5))) == HELD
    assert fetch.resume(0) is None
    slots[1, Purpose.FETCH_1].reserve(0)
    assert fetch.resume(0)


@needs_native
def test_what_an_order_decodes_ahead_fits_into_the_buffer() -> None:
    repeating = RepeatingWorld(**SMALL)
    fetch = repeating.stand(Purpose.FETCH_0)
    data = batch([Rec(value=b"v" * 5 * ROOM)], END, codec=GZIP, epoch=3)
    found = {ALL[0]: Found(data, high_watermark=END + 1)}
    assert repeating.respond(fetch, Purpose.FETCH_0, found) is not None
    assert repeating.world.buffer.held_bytes < ROOM
    (chunk,) = chunks(repeating.world)
    assert chunk.reader is not None
    (record,) = chunk.reader.take(1)
    assert record.value == b"v" * 5 * ROOM
