"""Stories: members of one group live through faults drawn from a seed, and everything is checked.

lives.py       records of topics that are gone
numbered.py    records whose values tell where they belong
scenarios.py   what kind of group it is
members.py     the members, polled in turn from one thread
listener.py    their listener, which checks what it is told
acts.py        what applications do
steering.py    how they pause, resume and seek
async_commits.py  commits that nobody waits for, and their callbacks
faults.py      what happens to them
invariants.py  what holds after every step
violation.py   what is raised when something does not hold
story.py       one seed, from the first member to the last farewell
runner.py      many seeds on several processes
"""

from __future__ import annotations

from tandem_kafka.testing.stories.scenarios import SCENARIOS, Scenario, scenario_for
from tandem_kafka.testing.stories.story import Outcome, live, tell
from tandem_kafka.testing.stories.violation import Violation

__all__ = ["SCENARIOS", "Outcome", "Scenario", "Violation", "live", "scenario_for", "tell"]
