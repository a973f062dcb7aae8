"""The pages about the command line and the simulation describe all options and scenarios."""

from __future__ import annotations

import argparse
import re
from typing import Final

import pytest

from tandem_kafka_testing.__main__ import parser as serving
from tests.scenarios import SCENARIOS
from tests.scenarios.__main__ import parser as running
from tests.sources import ROOT

PAGE: Final = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
SIMULATION: Final = (ROOT / "docs" / "explained" / "simulation.md").read_text(encoding="utf-8")


def test_the_options_and_their_help_are_on_the_page() -> None:
    commands = [
        (page, *pair)
        for page, parser in ((PAGE, serving()), (SIMULATION, running()))
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for pair in action.choices.items()
    ]
    for page, name, command in commands:
        section = page.split(f"### {name}\n")[1].split("\n##")[0]
        expected = {
            (f"`{action.option_strings[0] if action.option_strings else action.dest}`", action.help)
            for action in command._actions
            if not isinstance(action, argparse._HelpAction)
        }
        rows = re.findall(r"^\| (`[-\w]+`) \| (.+) \|$", section, re.MULTILINE)
        assert set(rows) == expected


@pytest.mark.sources
def test_the_scenarios_are_on_the_page() -> None:
    section = SIMULATION.split("### Scenarios\n")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    listed = [name for cell in first_cells for name in re.findall(r"`([-\w]+)`", cell)]
    assert sorted(listed) == sorted(SCENARIOS)
