"""The story: share, stop one, share again, kill one, and count. Records are written throughout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from demo.cluster import PARTITIONS, Cluster, Stream
from demo.ledger import Ledger
from demo.member import CONSUME, Member
from demo.view import View

TOPIC = "numbers"
GROUP = "readers"
BROKERS = 3
PER_SECOND = 1_500
LIMIT_S = 36.0
#: A killed member is to leave so many records behind that it read and did not commit.
UNCOMMITTED = PER_SECOND // 6


class Demo:
    """What the acts of the story share.

    Args:
        program: Module that a member's process runs.

    """

    def __init__(self, program: str) -> None:
        self.ledger = Ledger(PARTITIONS)
        self.members: list[Member] = []
        self.view = View(self.ledger, self.members)
        self.cluster = Cluster(BROKERS)
        self.cluster.create_topic(TOPIC)
        self.stream = Stream(self.cluster, TOPIC, self.ledger, per_second=PER_SECOND)
        self._program = program

    def start(self) -> Member:
        """Start one more member."""
        name = f"member {len(self.members) + 1}"
        member = Member(name, self._program, self.cluster.bootstrap, GROUP, TOPIC)
        self.members.append(member)
        self.view.say(f"{name} started, process {member.pid}")
        return member

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Keep everything going until `condition`."""
        while not condition():
            if self.view.elapsed_s > LIMIT_S:
                raise TimeoutError(f"not within {LIMIT_S:.0f} s: {what}")
            self._turn(what)
            self.view.refresh()
            time.sleep(0.02)

    def _turn(self, what: str) -> None:
        self.stream.write()
        for member in self.members:
            finished = member.finished
            member.enter_reports(self.ledger)
            if finished and not member.gone:
                raise RuntimeError(f"{member.name} ended by itself before: {what}")
        if self.ledger.gaps:
            raise RuntimeError(self.ledger.gaps[0])

    def for_a_while(self, seconds: float, what: str) -> None:
        """Keep everything going, for people to see it."""
        end_s = self.view.elapsed_s + seconds
        self.until(lambda: self.view.elapsed_s > end_s, what)

    def until_shared(self, members: list[Member]) -> None:
        """Wait until these members own all partitions, each of them some."""
        self.until(
            lambda: (
                all(member.owns for member in members)
                and sum(len(member.owns) for member in members) == PARTITIONS
            ),
            f"{' and '.join(member.name for member in members)} own all partitions",
        )
        self.view.say(", ".join(f"{member.name} owns {member.owned}" for member in members))

    def close(self) -> None:
        """Leave nothing running."""
        self.view.finish()
        for member in self.members:
            member.kill()


def first_act(demo: Demo) -> None:
    """Two members share the partitions; one is stopped, and the other takes them over."""
    staying, stopped = demo.start(), demo.start()
    demo.until_shared([staying, stopped])
    demo.until(lambda: demo.ledger.committed_total > 0, "the first commits")
    demo.for_a_while(0.5, "two members read")
    taken_over = stopped.owned
    stopped.ask_to_end()
    demo.until(lambda: stopped.closed, f"{stopped.name} leaves the group")
    demo.view.say(f"{stopped.name} stopped: it committed and left the group")
    demo.until_shared([staying])
    demo.view.say(f"so it took over {taken_over}, and never stopped reading its own")


def second_act(demo: Demo) -> None:
    """A newcomer gets half of the partitions; the other one is killed between two commits."""
    ledger = demo.ledger
    killed, newcomer = demo.members[0], demo.start()
    demo.until_shared([killed, newcomer])
    # While the group was shared out, the built-in cluster took no commits.
    demo.until(lambda: ledger.uncommitted(killed.owns) < UNCOMMITTED, "a commit of what was read")
    demo.until(
        lambda: ledger.uncommitted(killed.owns) > UNCOMMITTED, "records read and not committed"
    )
    killed.kill()
    killed.enter_reports(ledger)
    # It may have died after a commit and before it could tell us: the cluster knows.
    ledger.committed(demo.cluster.committed(GROUP, TOPIC))
    again = ledger.crashed(killed.owns)
    demo.view.say(f"{killed.name} killed: it had read {again:,} records that it had not committed")
    offsets = ", ".join(f"{ledger.partitions[each].committed:,}" for each in killed.owns)
    taken_over = killed.owned
    killed.owns = []
    demo.until_shared([newcomer])
    demo.view.say(f"so it took over {taken_over}, from the committed offsets {offsets}")


def third_act(demo: Demo) -> None:
    """The last member reads what is left, commits and leaves."""
    ledger, last = demo.ledger, demo.members[-1]
    demo.for_a_while(0.5, "one member reads")
    demo.stream.end()
    demo.until(lambda: demo.stream.delivered, "everything is written")
    demo.view.say(f"all {ledger.produced_total:,} records are written")
    demo.until(lambda: ledger.read_distinct == ledger.produced_total, "everything is read")
    last.ask_to_end()
    demo.until(lambda: last.closed, f"{last.name} leaves the group")
    demo.view.say(f"{last.name} read the rest, committed and left the group")
    ledger.committed(demo.cluster.committed(GROUP, TOPIC))


def summary(ledger: Ledger, written: int) -> int:
    """Print the account; returns the exit code."""
    print(
        f"\nproduced   {ledger.produced_total:7,}\n"
        f"read       {ledger.read_distinct:7,}  different records\n"
        f"read again {ledger.read_again:7,}  those that the killed member had not committed\n"
        f"committed  {ledger.committed_total:7,}"
    )
    faults = ledger.faults(written)
    for fault in faults:
        print(f"wrong: {fault}")
    print("\nnothing missed" if not faults else "\nthe account does not add up")
    return 1 if faults else 0


def main(program: str = CONSUME) -> int:
    """Tell the story and check it; returns the exit code."""
    demo = Demo(program)
    demo.view.say(
        f"{BROKERS} brokers at {demo.cluster.bootstrap}; topic {TOPIC!r}, "
        f"{PARTITIONS} partitions; {PER_SECOND:,} records a second"
    )
    try:
        for act in (first_act, second_act, third_act):
            act(demo)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, TimeoutError) as error:
        demo.view.say(f"failed: {error}")
        summary(demo.ledger, demo.stream.written)
        return 1
    finally:
        demo.close()
    return summary(demo.ledger, demo.stream.written)


if __name__ == "__main__":
    sys.exit(main())
