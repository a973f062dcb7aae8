"""The story: write, read, crash, go on, and count."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from demo.cluster import PARTITIONS, Cluster, Stream
from demo.ledger import Ledger
from demo.member import Member
from demo.view import View

TOPIC = "numbers"
GROUP = "readers"
BROKERS = 3
TOTAL = 20_000
PER_SECOND = 1_500
LIMIT_S = 38.0


class Demo:
    """What the acts of the story share."""

    def __init__(self) -> None:
        self.ledger = Ledger(PARTITIONS)
        self.view = View(self.ledger)
        self.cluster = Cluster(BROKERS)
        self.cluster.create_topic(TOPIC)
        self.stream = Stream(self.cluster, TOPIC, self.ledger, per_second=PER_SECOND)
        self.member: Member | None = None

    def start(self, name: str) -> Member:
        """Start a consumer."""
        self.member = self.view.member = Member(name, self.cluster.bootstrap, GROUP, TOPIC)
        self.view.say(f"{name} started, process {self.member.pid}")
        return self.member

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Keep everything going until `condition`."""
        while not condition():
            if self.view.elapsed_s > LIMIT_S:
                raise TimeoutError(f"not within {LIMIT_S:.0f} s: {what}")
            self.stream.write(TOTAL)
            if self.member is not None:
                finished = self.member.finished
                self.member.enter_reports(self.ledger)
                if finished and not condition():
                    raise RuntimeError(f"{self.member.name} ended by itself before: {what}")
            self.view.refresh()
            time.sleep(0.02)

    def close(self) -> None:
        """Leave nothing running."""
        self.view.finish()
        if self.member is not None:
            self.member.kill()


def first_act(demo: Demo) -> None:
    """A consumer reads and commits, and is killed between two commits."""
    ledger = demo.ledger
    first = demo.start("consumer 1")
    demo.until(lambda: len(first.owns) == PARTITIONS, "the first consumer owns all partitions")
    demo.view.say(f"{first.name} owns all {PARTITIONS} partitions")
    demo.until(
        lambda: ledger.read_distinct > TOTAL // 3 and ledger.committed_total > 0, "a third read"
    )
    demo.until(lambda: ledger.uncommitted > PER_SECOND // 4, "records read and not committed")
    first.kill()
    first.enter_reports(ledger)
    # It may have died after a commit and before it could tell us: the cluster knows.
    ledger.committed(demo.cluster.committed(GROUP, TOPIC))
    demo.view.say(
        f"{first.name} killed; of {ledger.read_distinct:,} records it read, "
        f"{ledger.uncommitted:,} were not committed"
    )
    ledger.crashed()


def second_act(demo: Demo) -> None:
    """Another consumer goes on from the committed offsets, reads the rest and leaves."""
    ledger = demo.ledger
    second = demo.start("consumer 2")
    offsets = ", ".join(f"{account.committed:,}" for account in ledger.partitions)
    demo.view.say(f"it waits for the dead one to be forgotten, and goes on from {offsets}")
    demo.until(lambda: len(second.owns) == PARTITIONS, "the second consumer owns all partitions")
    demo.view.say(f"{second.name} owns all {PARTITIONS} partitions")
    demo.until(lambda: demo.stream.write(TOTAL), "everything is written")
    demo.view.say(f"all {TOTAL:,} records are written")
    demo.until(lambda: ledger.read_distinct == TOTAL, "everything is read")
    second.ask_to_end()
    demo.until(lambda: second.closed, "the second consumer left the group")
    demo.view.say(f"{second.name} read the rest, committed and left the group")
    ledger.committed(demo.cluster.committed(GROUP, TOPIC))


def summary(ledger: Ledger) -> int:
    """Print the account; returns the exit code."""
    print(
        f"\nproduced   {ledger.produced_total:7,}\n"
        f"read       {ledger.read_distinct:7,}  different records\n"
        f"read again {ledger.read_again:7,}  those that the killed consumer had not committed\n"
        f"committed  {ledger.committed_total:7,}"
    )
    faults = ledger.faults(TOTAL)
    for fault in faults:
        print(f"wrong: {fault}")
    print("\nnothing lost" if not faults else "\nthe account does not add up")
    return 1 if faults else 0


def main() -> int:
    """Tell the story and check it."""
    demo = Demo()
    demo.view.say(
        f"{BROKERS} brokers at {demo.cluster.bootstrap}; topic {TOPIC!r}, "
        f"{PARTITIONS} partitions; {PER_SECOND:,} records a second"
    )
    try:
        first_act(demo)
        second_act(demo)
    except KeyboardInterrupt:
        return 130
    except (RuntimeError, TimeoutError) as error:
        demo.view.say(f"failed: {error}")
        summary(demo.ledger)
        return 1
    finally:
        demo.close()
    return summary(demo.ledger)


if __name__ == "__main__":
    sys.exit(main())
