"""The parts of the manual that are made from the code, the tests and the results of benchmarks.

A page names a part in a line, which the build replaces by the part:

    The table is in the manual; `python -m docs.generated options` prints it.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

__all__ = ["PARTS", "filled_in", "part"]

#: The functions that return the parts.
PARTS: Final = {
    "api-versions": "docs.generated.api_versions:table",
    "behaviours": "tests.behaviours.pages:behaviours",
    "benchmarks-of-options": "benchmarks.options.report:recorded",
    "command-line": "docs.generated.command_line:sections",
    "confluent-properties": "docs.generated.librdkafka:properties",
    "designs": "tests.behaviours.pages:designs",
    "franz-go-tests": "tests.others.page:of_franz_go",
    "kafka-python-tests": "tests.others.page:of_kafka_python",
    "options": "docs.generated.options:table",
    "options-parity": "tests.unit.config_parity:tables",
    "spark-parity": "packages.spark.tests.parity.page:tables",
    "stored-types": "docs.generated.storage:table",
}
_LINE: Final = re.compile(r"^.*`python -m docs\.generated ([\w-]+)`.*$", re.MULTILINE)
_FIGURES: Final = re.compile(r"^<!-- figures of (.+?): (.+) -->$", re.MULTILINE)


def part(name: str) -> str:
    """Return a part, as Markdown."""
    module, _, function = PARTS[name].partition(":")
    made: str = getattr(import_module(module), function)()
    return made


def filled_in(page: str) -> str:
    """Return a page with its parts, and with the figures of benchmarks."""
    from benchmarks.publish import figures

    page = _LINE.sub(lambda line: part(line[1]), page)
    return _FIGURES.sub(lambda comment: figures(comment[1], comment[2]), page)
