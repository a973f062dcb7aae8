"""Consumers that are broken on purpose: the stories find out, each within a few seeds."""

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
from tandem_kafka.request_managers.coordinator import CoordinatorManager
from tandem_kafka.request_managers.list_offsets import LATEST
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.request_managers.membership.consumer.consumer_heartbeat import HeartbeatFields
from tandem_kafka.request_managers.membership.consumer.consumer_membership import ConsumerMembership
from tandem_kafka.request_managers.membership.consumer.local_assignment import LocalAssignment
from tandem_kafka.request_managers.membership.consumer.reconciliation import Reconciliation
from tandem_kafka.request_managers.position_manager import PositionsManager
from tandem_kafka.request_managers.recreated import RecreatedTopics
from tandem_kafka.shared.partition import AssignedPartition, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.testing.coordinator.computation import Computations
from tandem_kafka.testing.coordinator.requests import InstallAssignment
from tests.scenarios import run_seed as tell
from tests.scenarios.invariants import Invariants
from tests.scenarios.runner import silence

Patch = pytest.MonkeyPatch
#: So many seeds may pass a broken consumer at most.
SEEDS = 40


def commits_what_is_read_ahead(patch: Patch) -> None:
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


def calls_nothing_when_fenced(patch: Patch) -> None:
    def lose(self: Any, then: Callable[[], None]) -> None:
        self._subscription.set_assigned(())
        self._callbacks.cancel()
        then()

    patch.setattr(ConsumerMembership, "_lose_partitions", lose)


def does_not_repeat_what_was_lost(patch: Patch) -> None:
    patch.setattr(HeartbeatFields, "forget", lambda _: None)


def spins_while_there_is_no_coordinator(patch: Patch) -> None:
    failed = CoordinatorManager._handle_error

    def at_once(self: Any, error: Exception) -> None:
        failed(self, error)
        self._state.reset()

    patch.setattr(CoordinatorManager, "_handle_error", at_once)


def brings_what_it_computed_once(patch: Patch) -> None:
    computed = LocalAssignment._handle_result
    remembered: dict[Any, Any] = {}

    def again(self: Any, message: Any) -> Any:
        if self not in remembered:
            remembered[self] = computed(self, message)
        return remembered[self]

    patch.setattr(LocalAssignment, "_handle_result", again)


def takes_an_assignment_of_a_stale_epoch(patch: Patch) -> None:
    """This one is the coordinator's."""
    honest = Computations.handle_install

    def handle_install(self: Any, request: InstallAssignment) -> None:
        honest(self, request)
        _, refusal = self._turn.outcome.answers[-1]
        if refusal in {StaleMemberEpochError, UnknownMemberIdError} and request.assignment:
            target = {
                member_id: frozenset(tp for tp in partitions if tp.topic)
                for member_id, partitions in request.assignment.items()
            }
            self._group.install(target, request.group_epoch, "dealt")

    patch.setattr(Computations, "handle_install", handle_install)


def starts_at_what_was_handed_out(patch: Patch) -> None:
    """Whatever the owner before has read and not committed is not read again."""
    begin, keep_books = PositionsManager._set_position, Invariants.__init__
    read_to: dict[Any, dict[TopicPartition, int]] = {}

    def books_are_open(self: Any, members: Any) -> None:
        keep_books(self, members)
        read_to[members.simulation.clock] = self.read_to

    def begin_there(self: Any, state: Any, position: Position) -> None:
        furthest = max(position.offset, read_to[self._context.clock][state.tp])
        begin(self, state, Position(furthest, position.leader_epoch))

    patch.setattr(Invariants, "__init__", books_are_open)
    patch.setattr(PositionsManager, "_set_position", begin_there)


def calls_listeners_on_the_network_thread(patch: Patch) -> None:
    """As soon as it is known what to tell; the application thread finds it told."""
    start, assigned, asked = ListenerCalls.__init__, ListenerCalls.assigned, CallbackRunner._send
    listeners: dict[Any, Any] = {}

    def known(self: Any, core: Any) -> None:
        start(self, core)
        listeners[core.engine.background] = self

    def ask(self: Any, event: Any) -> None:
        if isinstance(event, PartitionsAssigned):
            assigned(listeners[self._background], event.added)
        asked(self, event)

    patch.setattr(ListenerCalls, "__init__", known)
    patch.setattr(ListenerCalls, "assigned", lambda *_: None)
    patch.setattr(CallbackRunner, "_send", ask)


def calls_back_from_commits_on_the_network_thread(patch: Patch) -> None:
    commit = Commits.commit_async

    def commit_async(self: Any, *arguments: Any) -> Any:
        future = commit(self, *arguments)
        for pending in self._pending:
            pending.event.future.then(lambda _: self.run_callbacks())
        return future

    patch.setattr(Commits, "commit_async", commit_async)


def reads_what_is_not_committed(patch: Patch) -> None:
    patch.setattr(ManagerContext, "read_committed", False)


def goes_to_the_end_when_out_of_range(patch: Patch) -> None:
    await_reset = AssignedPartition.await_reset

    def to_the_end(self: Any, timestamp: int) -> None:
        await_reset(self, LATEST if self.base is not None else timestamp)

    patch.setattr(AssignedPartition, "await_reset", to_the_end)


def commits_what_others_have_read(patch: Patch) -> None:
    """A member commits its records as far as anybody has read."""
    keep_books, consumed = Invariants.__init__, SubscriptionState.consumed_offsets
    read_to: dict[TopicPartition, int] = {}

    def books_are_open(self: Any, members: Any) -> None:
        nonlocal read_to
        keep_books(self, members)
        read_to = self.read_to

    def furthest(self: Any) -> Any:
        return {
            tp: OffsetAndMetadata(max(read_to.get(tp, 0), commit.offset), "", -1)
            for tp, commit in consumed(self).items()
        }

    patch.setattr(Invariants, "__init__", books_are_open)
    patch.setattr(SubscriptionState, "consumed_offsets", furthest)


def hands_out_what_is_paused(patch: Patch) -> None:
    def not_revoked(self: Any) -> bool:
        return not (self.pending_revocation or self.awaiting_callback or self.dropped)

    patch.setattr(AssignedPartition, "returnable", property(not_revoked))


def forgets_the_pause_of_what_is_kept(patch: Patch) -> None:
    set_assigned = SubscriptionState.set_assigned

    def forgetful(self: Any, partitions: Any) -> None:
        set_assigned(self, partitions)
        for state in self.assigned.values():
            state.paused = False

    patch.setattr(SubscriptionState, "set_assigned", forgetful)


def keeps_what_was_fetched_when_sought_back(patch: Patch) -> None:
    """A seek to where reading began is taken for no seek."""
    set_position = AssignedPartition.set_position

    def moved(self: Any, position: Position, **named: Any) -> None:
        if self.base is None or self.base.offset != position.offset:
            set_position(self, position, **named)

    patch.setattr(AssignedPartition, "set_position", moved)


def calls_back_as_commits_are_done(patch: Patch) -> None:
    def run_callbacks(self: Any) -> None:
        for pending in [each for each in self._pending if each.event.future.done]:
            self._pending.remove(pending)
            self._finish(pending)

    patch.setattr(Commits, "run_callbacks", run_callbacks)


def commits_nothing_before_it_gives_back(patch: Patch) -> None:
    patch.setattr(Commits, "commit_quietly", lambda *_: None)


def goes_on_in_a_topic_made_anew(patch: Patch) -> None:
    patch.setattr(RecreatedTopics, "check", lambda _: None)


def commits_of_an_old_topic_to_the_new_one(patch: Patch) -> None:
    patch.setattr(SubscriptionState, "topic_ids", lambda *_: {})


@pytest.mark.parametrize(
    ("mutate", "scenario", "finding"),
    [
        (commits_what_is_read_ahead, "consumer", "committed"),
        (commits_what_others_have_read, "consumer", "committed, "),
        (starts_at_what_was_handed_out, "consumer", "begins at|committed, "),
        (reads_what_is_not_committed, "consumer-transactions", "was due|that is not over"),
        (goes_to_the_end_when_out_of_range, "consumer-racks", "was due|committed, "),
        (acknowledges_without_revoking, "consumer", "given to member|assigned twice"),
        (heartbeats_with_a_stale_epoch, "consumer", "does not settle|times Consumer| turns in "),
        (calls_nothing_when_fenced, "consumer", "own|parted with"),
        (calls_listeners_on_the_network_thread, "consumer", "on a network thread"),
        (calls_back_from_commits_on_the_network_thread, "classic", "on a network thread"),
        (does_not_repeat_what_was_lost, "consumer-patient", "does not settle"),
        (brings_what_it_computed_once, "consumer-local", "does not settle|was handed to"),
        (takes_an_assignment_of_a_stale_epoch, "consumer-local", "target"),
        (spins_while_there_is_no_coordinator, "classic", "FindCoordinatorRequest| turns in "),
        (hands_out_what_is_paused, "consumer-steered", "has paused"),
        (forgets_the_pause_of_what_is_kept, "cooperative-steered", "it asked for|has paused"),
        (keeps_what_was_fetched_when_sought_back, "classic-steered", "was due"),
        (calls_back_as_commits_are_done, "consumer-steered", "the callback of commit"),
        (commits_nothing_before_it_gives_back, "classic-steered", "given back at"),
        (goes_on_in_a_topic_made_anew, "classic-recreated", "begins at|was due|committed, "),
        (commits_of_an_old_topic_to_the_new_one, "consumer-recreated", "begins at|committed, "),
    ],
)
def test_a_broken_consumer_is_caught(
    mutate: Callable[[Patch], None], scenario: str, finding: str, monkeypatch: Patch
) -> None:
    mutate(monkeypatch)
    with silence():
        stories = (tell(seed, scenario) for seed in range(SEEDS))
        caught = next((story for story in stories if story.error), None)
        assert caught is not None, f"{SEEDS} seeds and nobody noticed"
        assert re.search(finding, caught.error)
        monkeypatch.undo()
        assert not tell(caught.seed, scenario).error, "and only the broken one"
