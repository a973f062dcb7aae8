"""Scenarios: members of one group under faults that a seed draws, checked after every step.

catalogue.py         the kinds of groups
members.py           the members, polled one after another by one thread
listener.py          their rebalance listener, which checks each call
applications.py      what the applications do
steering.py          how they pause, resume and seek
async_commits.py     asynchronous commits and their callbacks
async_members.py     members that are asyncio consumers
cancelling.py        cancellation of a task at one of its suspensions
local_assignors.py   client-side assignors
faults.py            the faults
producers.py         transactional producers
numbered_records.py  records whose values name their partition and offset
recreated_topics.py  records of deleted topics
workers.py           members with workers: their applications
worker_records.py    what workers may do with records
workers_soak.py      workers of asyncio that are cancelled, and lose offsets and topics
simulated_executor.py  an executor whose calls take simulated time
invariants.py        what must hold after every step
history.py           what is produced and due, and what everybody does, for tests/histories
shares.py            members of share groups, their faults and their end
share_members.py     one of them, and its application
share_soak.py        applications whose handlers take longer than a lock
share_ledger.py      what became of each record
violation.py         raised when an invariant does not hold
run.py               one seed
runner.py            many seeds on several processes

`python -m tests.scenarios run` runs many seeds, `python -m tests.scenarios replay` runs one.
"""

from __future__ import annotations

from tests.scenarios.catalogue import SCENARIOS, Scenario, scenario_for
from tests.scenarios.run import Outcome, run_scenario, run_seed
from tests.scenarios.violation import Violation

__all__ = [
    "SCENARIOS",
    "Outcome",
    "Scenario",
    "Violation",
    "run_scenario",
    "run_seed",
    "scenario_for",
]
