"""Defects put into the consumer: the scenarios must find each one within a few seeds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import StaleMemberEpochError, UnknownMemberIdError

from tandem_kafka import OffsetAndMetadata, TopicPartition
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.listener import ListenerCalls
from tandem_kafka.events.background import PartitionsAssigned
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.request_managers.membership.kip848.heartbeat import HeartbeatFields
from tandem_kafka.request_managers.membership.kip848.local_assignment import LocalAssignment
from tandem_kafka.request_managers.membership.kip848.membership import Kip848Membership
from tandem_kafka.request_managers.membership.kip848.reconciliation import Reconciliation
from tandem_kafka.request_managers.offsets_request_manager import LATEST
from tandem_kafka.request_managers.positions_request_manager import PositionsRequestManager
from tandem_kafka.request_managers.recreated import RecreatedTopics
from tandem_kafka.runtime.callers import run
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka_testing.coordinator.computation import Computations
from tandem_kafka_testing.coordinator.requests import InstallAssignment
from tests.scenarios import run_seed
from tests.scenarios.invariants import Invariants
from tests.scenarios.runner import silence

Patch = pytest.MonkeyPatch
#: Seeds within which a defect must be found. The one that stands beside it is tried first.
SEEDS = 40


def commits_the_read_ahead(patch: Patch) -> None:
    def read_ahead(self: Any) -> Any:
        return {
            tp: OffsetAndMetadata(state.read_ahead, "", -1)
            for tp, state in self.assigned.items()
            if state.has_valid_position
        }

    patch.setattr(SubscriptionState, "consumed_offsets", read_ahead)


def acknowledges_without_revoking(patch: Patch) -> None:
    def revoke(self: Any, taking: Any, resolved: Any) -> None:
        self._pending = taking.partitions
        self._revoked(taking, resolved)

    patch.setattr(Reconciliation, "_revoke", revoke)


def heartbeats_with_a_stale_epoch(patch: Patch) -> None:
    message = HeartbeatFields.message

    def stale(self: Any, member_id: str, epoch: int, *rest: Any, **named: Any) -> Any:
        return message(self, member_id, epoch - 1 if epoch > 1 else epoch, *rest, **named)

    patch.setattr(HeartbeatFields, "message", stale)


def calls_no_listener_when_fenced(patch: Patch) -> None:
    def lose(self: Any, then: Callable[[], None]) -> None:
        self._subscription.set_assigned(())
        self._callbacks.cancel()
        then()

    patch.setattr(Kip848Membership, "_lose_partitions", lose)


def does_not_repeat_lost_heartbeats(patch: Patch) -> None:
    patch.setattr(HeartbeatFields, "forget", lambda _: None)


def spins_while_there_is_no_coordinator(patch: Patch) -> None:
    failed = CoordinatorRequestManager._handle_error

    def at_once(self: Any, error: Exception) -> None:
        failed(self, error)
        self._state.reset()

    patch.setattr(CoordinatorRequestManager, "_handle_error", at_once)


def installs_its_first_assignment_again(patch: Patch) -> None:
    computed = LocalAssignment._handle_result
    remembered: dict[Any, Any] = {}

    def again(self: Any, message: Any) -> Any:
        if self not in remembered:
            remembered[self] = computed(self, message)
        return remembered[self]

    patch.setattr(LocalAssignment, "_handle_result", again)


async def does_nothing(*_: object) -> None:
    """Replace a coroutine."""


def accepts_an_assignment_of_a_stale_epoch(patch: Patch) -> None:
    """A defect of the coordinator."""
    original = Computations.handle_install

    def handle_install(self: Any, request: InstallAssignment) -> None:
        original(self, request)
        _, error = self._step.outcome.responses[-1]
        if error in {StaleMemberEpochError, UnknownMemberIdError} and request.assignment:
            target = {
                member_id: frozenset(tp for tp in partitions if tp.topic)
                for member_id, partitions in request.assignment.items()
            }
            self._group.install(target, request.group_epoch, "even")

    patch.setattr(Computations, "handle_install", handle_install)


def starts_behind_records_of_the_previous_owner(patch: Patch) -> None:
    """Uncommitted records of the previous owner are not read again."""
    set_position, create = PositionsRequestManager._set_position, Invariants.__init__
    read_to: dict[Any, dict[TopicPartition, int]] = {}

    def create_and_share(self: Any, members: Any) -> None:
        create(self, members)
        read_to[members.simulation.clock] = self.read_to

    def start_there(self: Any, state: Any, position: Position) -> None:
        furthest = max(position.offset, read_to[self._context.clock][state.tp])
        set_position(self, state, Position(furthest, position.leader_epoch))

    patch.setattr(Invariants, "__init__", create_and_share)
    patch.setattr(PositionsRequestManager, "_set_position", start_there)


def calls_listeners_on_the_network_thread(patch: Patch) -> None:
    """The listener is called when its event is queued; the application thread does not call it."""
    start, assigned, asked = ListenerCalls.__init__, ListenerCalls.assigned, CallbackRunner._send
    listeners: dict[Any, Any] = {}

    def known(self: Any, core: Any) -> None:
        start(self, core)
        listeners[core.engine.background] = self

    def ask(self: Any, event: Any) -> None:
        if isinstance(event, PartitionsAssigned):
            run(assigned(listeners[self._background], event.added))
        asked(self, event)

    patch.setattr(ListenerCalls, "__init__", known)
    patch.setattr(ListenerCalls, "assigned", does_nothing)
    patch.setattr(CallbackRunner, "_send", ask)


def runs_commit_callbacks_on_the_network_thread(patch: Patch) -> None:
    commit = Commits.commit_async

    def commit_async(self: Any, *arguments: Any) -> Any:
        future = commit(self, *arguments)
        for pending in self._pending:
            pending.event.future.then(lambda _: self.run_callbacks())
        return future

    patch.setattr(Commits, "commit_async", commit_async)


def reads_uncommitted_records(patch: Patch) -> None:
    patch.setattr(ManagerContext, "read_committed", False)


def resets_to_the_end_when_out_of_range(patch: Patch) -> None:
    await_reset = AssignedPartition.await_reset

    def to_the_end(self: Any, timestamp: int) -> None:
        await_reset(self, LATEST if self.base is not None else timestamp)

    patch.setattr(AssignedPartition, "await_reset", to_the_end)


def commits_records_of_other_members(patch: Patch) -> None:
    """A member commits up to the furthest position of any member."""
    create, consumed = Invariants.__init__, SubscriptionState.consumed_offsets
    read_to: dict[TopicPartition, int] = {}

    def create_and_share(self: Any, members: Any) -> None:
        nonlocal read_to
        create(self, members)
        read_to = self.read_to

    def furthest(self: Any) -> Any:
        return {
            tp: OffsetAndMetadata(max(read_to.get(tp, 0), commit.offset), "", -1)
            for tp, commit in consumed(self).items()
        }

    patch.setattr(Invariants, "__init__", create_and_share)
    patch.setattr(SubscriptionState, "consumed_offsets", furthest)


def hands_out_paused_partitions(patch: Patch) -> None:
    def not_revoked(self: Any) -> bool:
        return not (self.pending_revocation or self.awaiting_callback or self.dropped)

    patch.setattr(AssignedPartition, "returnable", property(not_revoked, lambda *_: None))


def forgets_pauses_of_kept_partitions(patch: Patch) -> None:
    set_assigned = SubscriptionState.set_assigned

    def forgetful(self: Any, partitions: Any) -> None:
        set_assigned(self, partitions)
        for state in self.assigned.values():
            state.paused = False

    patch.setattr(SubscriptionState, "set_assigned", forgetful)


def keeps_fetched_records_when_sought_back(patch: Patch) -> None:
    """A seek to the offset where fetching began does nothing."""
    set_position = AssignedPartition.set_position

    def moved(self: Any, position: Position, **named: Any) -> None:
        if self.base is None or self.base.offset != position.offset:
            set_position(self, position, **named)

    patch.setattr(AssignedPartition, "set_position", moved)


def runs_commit_callbacks_out_of_order(patch: Patch) -> None:
    def run_callbacks(self: Any) -> None:
        for pending in [each for each in self._pending if each.event.future.done]:
            self._pending.remove(pending)
            self._finish(pending)

    patch.setattr(Commits, "run_callbacks", run_callbacks)


def does_not_commit_before_a_revocation(patch: Patch) -> None:
    patch.setattr(Commits, "commit_quietly", does_nothing)


def keeps_its_position_in_a_recreated_topic(patch: Patch) -> None:
    patch.setattr(RecreatedTopics, "check", lambda _: None)


def commits_offsets_of_a_deleted_topic(patch: Patch) -> None:
    patch.setattr(SubscriptionState, "topic_ids", lambda *_: {})


@pytest.mark.parametrize(
    ("mutate", "seed", "scenario", "finding"),
    [
        (commits_the_read_ahead, 2, "consumer", "committed"),
        (commits_records_of_other_members, 8, "consumer", "committed, "),
        (starts_behind_records_of_the_previous_owner, 4, "consumer", "starts at|committed, "),
        (reads_uncommitted_records, 1, "consumer-transactions", "was due|open transaction"),
        (resets_to_the_end_when_out_of_range, 0, "consumer-racks", "was due|committed, "),
        (acknowledges_without_revoking, 0, "consumer", "assigned to member|assigned twice"),
        (
            heartbeats_with_a_stale_epoch,
            10,
            "consumer",
            "does not settle|times| iterations in ",
        ),
        (calls_no_listener_when_fenced, 0, "consumer", "own"),
        (calls_listeners_on_the_network_thread, 0, "consumer", "on a network thread"),
        (runs_commit_callbacks_on_the_network_thread, 2, "classic", "on a network thread"),
        (does_not_repeat_lost_heartbeats, 11, "consumer-patient", "does not settle"),
        (installs_its_first_assignment_again, 0, "consumer-local", "does not settle|was handed to"),
        (accepts_an_assignment_of_a_stale_epoch, 2, "consumer-local", "target"),
        (
            spins_while_there_is_no_coordinator,
            20,
            "classic",
            "FindCoordinatorRequest| iterations in ",
        ),
        (hands_out_paused_partitions, 0, "consumer-steered", "has paused"),
        (forgets_pauses_of_kept_partitions, 0, "cooperative-steered", "expected|has paused"),
        (keeps_fetched_records_when_sought_back, 10, "classic-steered", "was due|not settle"),
        (runs_commit_callbacks_out_of_order, 0, "consumer-steered", "the callback of commit"),
        (does_not_commit_before_a_revocation, 1, "classic-steered", "revoked at"),
        (
            keeps_its_position_in_a_recreated_topic,
            1,
            "classic-recreated",
            "starts at|was due|committed, ",
        ),
        (commits_offsets_of_a_deleted_topic, 24, "consumer-recreated", "starts at|committed, "),
    ],
)
def test_a_defect_is_found_within_a_few_seeds(
    mutate: Callable[[Patch], None], seed: int, scenario: str, finding: str, monkeypatch: Patch
) -> None:
    mutate(monkeypatch)
    with silence():
        outcomes = (run_seed(each, scenario) for each in (seed, *range(SEEDS)))
        failed = next((outcome for outcome in outcomes if outcome.error), None)
        assert failed is not None, f"not found within {SEEDS} seeds"
        assert re.search(finding, failed.error)
        monkeypatch.undo()
        assert not run_seed(failed.seed, scenario).error, "fails without the defect, too"
