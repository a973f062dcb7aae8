"""Members of a group start, stop and crash while records are written; then all are counted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tandem_kafka_cli.demo.cluster import PARTITIONS, Cluster, Stream
from tandem_kafka_cli.demo.ledger import Ledger
from tandem_kafka_cli.demo.member import CONSUME, Member
from tandem_kafka_cli.demo.view import View

TOPIC = "numbers"
GROUP = "readers"
BROKERS = 3
PER_SECOND = 1_500
#: Far longer than it takes, so that it succeeds on a busy machine too.
LIMIT_S = 120.0
#: The killed member must have read at least this many records without committing them.
UNCOMMITTED = PER_SECOND // 6


class Demo:
    """The cluster, the members and the view that all steps share.

    Args:
        program: Module that a member's process runs.

    """

    def __init__(self, program: str) -> None:
        self.ledger = Ledger(PARTITIONS)
        self.members: list[Member] = []
        self.view = View(self.ledger, self.members)
        self.cluster = Cluster(BROKERS, GROUP)
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
        """Keep everything running until a condition holds.

        Args:
            condition: Checked about every 20 ms.
            what: The condition in words, for the error.

        Raises:
            TimeoutError: The demo has taken too long.
            RuntimeError: A member ended by itself, or missed a record.
        """
        while not condition():
            if self.view.elapsed_s > LIMIT_S:
                raise TimeoutError(f"did not happen within {LIMIT_S:.0f} s: {what}")
            self._step(what)
            self.view.refresh()
            time.sleep(0.02)

    def _step(self, what: str) -> None:
        self.stream.write()
        for member in self.members:
            finished = member.finished
            member.enter_reports(self.ledger)
            if finished and not member.gone:
                raise RuntimeError(f"{member.name} ended by itself before: {what}")
        if self.ledger.gaps:
            raise RuntimeError(self.ledger.gaps[0])

    def for_a_while(self, seconds: float, what: str) -> None:
        """Keep everything running for some seconds, so that people can watch."""
        end_s = self.view.elapsed_s + seconds
        self.until(lambda: self.view.elapsed_s > end_s, what)

    def until_shared(self, members: list[Member]) -> None:
        """Wait until these members own all partitions, and each owns at least one."""
        self.until(
            lambda: (
                all(member.owns for member in members)
                and sum(len(member.owns) for member in members) == PARTITIONS
            ),
            f"{' and '.join(member.name for member in members)} own all partitions",
        )
        self.view.say(", ".join(f"{member.name} owns {member.owned}" for member in members))

    def close(self) -> None:
        """End all processes."""
        self.view.finish()
        for member in self.members:
            member.kill()
        self.cluster.close()


def stop_one_member(demo: Demo) -> None:
    """Two members share the partitions. One is stopped, and the other takes over its partitions."""
    staying, stopped = demo.start(), demo.start()
    demo.until_shared([staying, stopped])
    demo.until(lambda: demo.ledger.committed_total > 0, "the first commits")
    demo.for_a_while(0.5, "two members read")
    kept, taken_over = staying.owned, stopped.owned
    stopped.ask_to_end()
    demo.until(lambda: stopped.closed, f"{stopped.name} leaves the group")
    demo.view.say(f"{stopped.name} stopped: it committed and left the group")
    demo.until_shared([staying])
    demo.view.say(f"{staying.name} took over {taken_over} without pausing {kept}")


def kill_one_member(demo: Demo) -> None:
    """A new member gets half of the partitions. The other one is killed between two commits."""
    ledger = demo.ledger
    killed, joined = demo.members[0], demo.start()
    demo.until_shared([killed, joined])
    # A commit during the rebalance may have been rejected.
    demo.until(lambda: ledger.uncommitted(killed.owns) < UNCOMMITTED, "a commit")
    demo.until(
        lambda: ledger.uncommitted(killed.owns) > UNCOMMITTED, "records read and not committed"
    )
    killed.kill()
    killed.enter_reports(ledger)
    # The member may have died between a commit and its report, so ask the cluster.
    ledger.committed(demo.cluster.committed(GROUP, TOPIC))
    again = ledger.crashed(killed.owns)
    demo.view.say(f"{killed.name} killed: {again:,} records were read and not committed")
    offsets = ", ".join(f"{ledger.partitions[each].committed:,}" for each in killed.owns)
    taken_over = killed.owned
    killed.owns = []
    demo.until_shared([joined])
    demo.view.say(f"{joined.name} took over {taken_over} from the committed offsets {offsets}")


def read_to_the_end(demo: Demo) -> None:
    """The last member reads the remaining records, commits and leaves."""
    ledger, last = demo.ledger, demo.members[-1]
    demo.for_a_while(0.5, "one member reads")
    demo.stream.end()
    demo.until(lambda: demo.stream.delivered, "everything is written")
    demo.view.say(f"all {ledger.produced_total:,} records are written")
    demo.until(lambda: ledger.read_distinct == ledger.produced_total, "everything is read")
    last.ask_to_end()
    demo.until(lambda: last.closed, f"{last.name} leaves the group")
    demo.view.say(f"{last.name} read the rest, committed, and left the group")
    ledger.committed(demo.cluster.committed(GROUP, TOPIC))


def account(ledger: Ledger) -> str:
    """Return the sums of the account, as a small table."""
    return (
        f"written    {ledger.produced_total:7,}\n"
        f"read       {ledger.read_distinct:7,}  different records\n"
        f"read again {ledger.read_again:7,}  records that the killed member had not committed\n"
        f"committed  {ledger.committed_total:7,}"
    )


def summary(view: View, ledger: Ledger, written: int) -> int:
    """Print the account and the verdict; return the exit code."""
    faults = ledger.faults(written)
    verdict = "\n".join(faults) if faults else "No record was missed."
    view.conclude(account(ledger), verdict, good=not faults)
    return 1 if faults else 0


def main(program: str = CONSUME) -> int:
    """Run the demo and check it; returns the exit code.

    Args:
        program: Module that a member's process runs.
    """
    demo = Demo(program)
    view = demo.view
    view.say(
        f"{BROKERS} brokers at {demo.cluster.bootstrap}, topic {TOPIC!r} with {PARTITIONS} "
        f"partitions, {PER_SECOND:,} new records a second"
    )
    view.say(
        "A group reads them. One member will be stopped and one killed; no record may be missed.",
        "bold",
    )
    try:
        for step in (stop_one_member, kill_one_member, read_to_the_end):
            step(demo)
    except KeyboardInterrupt:
        view.say("interrupted: the members are stopped")
        return 130
    except (RuntimeError, TimeoutError) as error:
        view.say(f"failed: {error}", "bold red")
        summary(view, demo.ledger, demo.stream.written)
        return 1
    finally:
        demo.close()
    return summary(view, demo.ledger, demo.stream.written)


if __name__ == "__main__":
    sys.exit(main())
