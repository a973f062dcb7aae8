"""The recorded outcomes, their comparison, and the tables of the manual."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packages.spark.tests.parity.cases import cases
from packages.spark.tests.parity.dimensions import LABELS, Case
from packages.spark.tests.parity.reasons import REASONS, reason_for
from packages.spark.tests.parity.topics import PREFIX

__all__ = ["DATA", "agree", "recorded", "tables", "write"]

DATA: Final = Path(__file__).with_name("connector.json")
_COUNTS: Final = """\
Of {total} combinations, {equal} have the same result, {errors} are an error with both, and
{different} differ. The connector was version {connector} on Spark {spark}, with Kafka {kafka}.
"""


def recorded() -> dict[str, Any]:
    """Return the content of the data file: the versions, and the outcomes by id of combination."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def write(versions: Mapping[str, str], outcomes: Mapping[str, Any]) -> None:
    """Write the data file, one line for each combination."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(outcome)}" for name, outcome in outcomes.items()
    )
    DATA.write_text(f'{{"versions": {json.dumps(versions)},\n"outcomes": {{\n{lines}\n}}}}\n')


def agree(here: Any, there: Any) -> bool:
    """Return whether two outcomes are the same; of errors, only the kind and the subject."""
    if isinstance(here, dict) and isinstance(there, dict):
        if "error" in here and "error" in there:
            return here["error"] == there["error"] and here["named"] >= there["named"]
        return here.keys() == there.keys() and all(agree(here[k], there[k]) for k in here)
    if isinstance(here, list) and isinstance(there, list):
        return len(here) == len(there) and all(map(agree, here, there))
    return bool(here == there)


# --- the tables -----------------------------------------------------------------------------------


def tables() -> str:
    """Return how many combinations differ, why, and each of them."""
    data = recorded()
    outcomes = data["outcomes"]
    different = sum("here" in each for each in outcomes.values())
    errors = sum("here" not in each and _is_error(each["connector"]) for each in outcomes.values())
    equal = len(outcomes) - different - errors
    counts = _COUNTS.format(
        total=len(outcomes), equal=equal, errors=errors, different=different, **data["versions"]
    )
    groups: dict[str, list[Case]] = {}
    for case in cases().values():
        groups.setdefault(case.group, []).append(case)
    parts = [_group(group, members, outcomes) for group, members in groups.items()]
    return "\n".join([counts, _differences(outcomes), *parts, _legend()])


def _differences(outcomes: Mapping[str, Any]) -> str:
    """Return the table of reasons, each with the number of its combinations."""
    counts = dict.fromkeys(REASONS, 0)
    for name, outcome in outcomes.items():
        if "here" in outcome:
            key = reason_for(name, **outcome)
            if key is not None:
                counts[key] += 1
    rows = (f"| {key} | {n} | {REASONS[key].text} |" for key, n in counts.items())
    return "\n".join(("## Reasons", "", "| reason | combinations | |", "|---|---|---|", *rows, ""))


def _group(group: str, members: list[Case], outcomes: Mapping[str, Any]) -> str:
    lines = [f"## {group[0].upper()}{group[1:]}", ""]
    lines += ["| combination | connector | here | reason |", "|---|---|---|---|"]
    for case in members:
        outcome = outcomes[case.id]
        here = _short(outcome["here"]) if "here" in outcome else "same"
        reason = reason_for(case.id, **outcome) if "here" in outcome else ""
        lines.append(f"| {_cell(case.name)} | {_short(outcome['connector'])} | {here} | {reason} |")
    return "\n".join([*lines, ""])


def _legend() -> str:
    """Return what the labels in the names of combinations stand for."""
    rows = [
        f"| {_cell(label)} | {_options(options)} |"
        for labels in LABELS.values()
        for label, options in labels.items()
        if label and options
    ]
    return "\n".join(("## Options of the combinations", "", "| | |", "|---|---|", *rows, ""))


def _options(options: Mapping[str, str]) -> str:
    plain = (f"{name}={value}" for name, value in options.items())
    text = " ".join(
        each.replace(PREFIX, "").replace("{{", "{").replace("}}", "}") for each in plain
    )
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _is_error(outcome: Any) -> bool:
    return any("error" in each for each in _parts(outcome))


def _parts(outcome: Any) -> Iterator[Any]:
    """Yield an outcome and the errors of a stream's runs."""
    yield outcome
    yield from (each for each in outcome.get("runs", ()) if isinstance(each, dict))


def _short(outcome: Any) -> str:
    """Return an outcome in a few words."""
    errors = [each for each in _parts(outcome) if "error" in each]
    words = [f"{_rows(outcome)}"] if outcome.get("rows") or not errors else []
    words += [f"{each['error']}: {each['text']}" for each in errors]
    return _cell("; ".join(words))


def _rows(outcome: Any) -> str:
    rows = outcome["rows"]
    text = f"{rows} {'row' if rows == 1 else 'rows'}"
    if "tasks" in outcome:
        tasks = outcome["tasks"]
        text += f", {tasks} {'task' if tasks == 1 else 'tasks'}"
    if "runs" in outcome:
        runs = (
            "+".join(str(count) for _, _, count in run) or "0"
            for run in outcome["runs"]
            if isinstance(run, list)
        )
        text += f" in batches of {', then '.join(runs)}"
    return text
