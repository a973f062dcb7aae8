"""Names of a package that are imported on first use: a process imports only what it uses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], **extras: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: The name of the package.
        homes: The names that it exports, and which of its modules defines each.
        **extras: Packages of others that some of these modules import, and the extras of
            tandem-kafka that install them.
    """

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f"{package}.{homes[name]}")
        except ImportError as error:
            missing = str(error.name).partition(".")[0]
            if missing not in extras:
                raise
            raise ImportError(
                f"{package}.{name} needs {missing}; "
                f"run: pip install 'tandem-kafka[{extras[missing]}]'"
            ) from error
        found = getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return imported, lambda: listed(package, homes)


def listed(package: str, public: Iterable[str]) -> list[str]:
    """Return what `dir()` shows of a package: its public names, and its modules in use."""
    found = (
        name
        for name in vars(sys.modules[package])
        if name.startswith("__") or f"{package}.{name}" in sys.modules
    )
    return sorted({*public, *found})
