"""Imports kafka-python, without its deprecation warnings on Python 3.11 and 3.12.

kafka-python 3.0 reads its message schemas with `importlib.resources.read_text`, which these two
versions deprecate. With `-W error` the warning would keep a program from importing this package.
Packages and modules that import kafka-python therefore import this module first
(`tests/unit/test_imports.py`). Its other names are those of kafka-python.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def schemas_may_be_read() -> Iterator[None]:
    """Ignore the warnings that kafka-python causes when it reads a message schema."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
        yield


with schemas_may_be_read():
    import kafka


def __getattr__(name: str) -> Any:
    return getattr(kafka, name)
