"""Loads kafka-python's errors and structs without the rest of kafka-python.

Importing any module of kafka-python executes `kafka/__init__.py`, which imports the admin client,
the producer and the consumer. A process that Spark starts to plan a query needs none of them, only
the classes of errors and `TopicPartition`. Their two modules import nothing of kafka-python.

Invariant: `import kafka` is the ordinary import. Until then, `sys.modules` has the two modules
under their own names, but not the package. The import system binds a submodule to its package when
it loads the submodule, which has happened already. `_Binder` binds them instead, when the package
imports its first other submodule.
"""

from __future__ import annotations

import sys
import threading
from importlib import _bootstrap, import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import Any, Final

_NAMES: Final = ("errors", "structs")
#: Loads a module under the import system's lock, without its package. It has no public name; a
#: Python that lacks it imports all of kafka-python.
_LOAD: Final = getattr(_bootstrap, "_load", None)
#: Invariant: no thread begins to import kafka-python while another thread loads the two modules.
#: They import only the standard library, so nothing waits for the import of kafka-python here.
_LOADING: Final = threading.RLock()


class _Binder(MetaPathFinder):
    """Finds nothing. It stays: the import system goes through `sys.meta_path` when it is called."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Bind the modules to their package before another submodule is loaded."""
        if name.partition(".")[0] != "kafka":
            return
        with _LOADING:
            package = sys.modules.get("kafka")
            for each in _NAMES if package is not None else ():
                module = sys.modules.get(f"kafka.{each}")
                if module is not None and each not in vars(package):
                    setattr(package, each, module)


def _spec_of(name: str) -> ModuleSpec | None:
    """Find a module of kafka-python; None if only an ordinary import does (a frozen program)."""
    package = find_spec("kafka")
    places = package.submodule_search_locations if package is not None else None
    return PathFinder.find_spec(f"kafka.{name}", places) if places is not None else None


def _load_values() -> None:
    sys.meta_path.insert(0, _Binder())
    for name in _NAMES:
        spec = _spec_of(name) if "kafka" not in sys.modules else None
        with _LOADING:
            known = {"kafka", f"kafka.{name}"} & sys.modules.keys()
            if spec is not None and _LOAD is not None and not known:
                _LOAD(spec)
        import_module(f"kafka.{name}")  # if it is not loaded yet


_load_values()
