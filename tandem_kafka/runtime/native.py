"""Loads the native extension once; only this module decides whether it is used.

The environment variable `TANDEM_KAFKA_IMPL` selects the implementation. `python` never loads the
extension. `native` makes its absence an error at import. By default, the extension is used if it is
available.

An extension with the wrong ABI is always an error. It is left over from another build, and would
not match the behaviour of the Python code.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Final

from tandem_kafka.logs import client_logger

log = client_logger(__name__)

#: The required value of `_native.ABI`; change both together.
ABI: Final = 17

_MODULE: Final = "tandem_kafka._native"
_VARIABLE: Final = "TANDEM_KAFKA_IMPL"


def load(wanted: str | None) -> tuple[ModuleType | None, str]:
    """Return the extension, or None and the reason why it is not used.

    Args:
        wanted: The value of `TANDEM_KAFKA_IMPL`; None or empty for the default.

    Raises:
        ImportError: The extension is required but cannot be loaded, or it is from another build.
    """
    if wanted not in {None, "", "python", "native"}:
        raise ImportError(
            f"{_VARIABLE}={wanted} is invalid: set it to python or native, or unset it"
        )
    if wanted == "python":
        return None, f"{_VARIABLE}=python"
    try:
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        if wanted == "native":
            raise ImportError(
                f"{_VARIABLE}=native, but the native extension cannot be loaded: {error} "
                f"(reinstall with TANDEM_KAFKA_NATIVE=require to build it, or unset {_VARIABLE})"
            ) from error
        return None, f"the native extension cannot be loaded: {error}"
    found = getattr(module, "ABI", None)
    if found != ABI:
        raise ImportError(
            f"{getattr(module, '__file__', _MODULE)} is from another build of tandem-kafka "
            f"(its ABI is {found}, this version needs {ABI}): reinstall the package, or set "
            f"{_VARIABLE}=python"
        )
    return module, ""


_loaded = load(os.environ.get(_VARIABLE))

#: The extension, or None; `_native.pyi` declares its types.
native: Final = _loaded[0]

#: Whether the native extension is in use.
native_available: Final = native is not None

_REASON: Final = _loaded[1]


_logged: Final[set[str]] = set()


def log_fallback() -> None:
    """Log why the Python implementation is used, if it is; called when a consumer starts.

    It is a warning, once for each process, unless it was chosen.
    """
    if native_available:
        return
    if os.environ.get(_VARIABLE) == "python":
        log.info("using the Python implementation instead of the native extension: %s", _REASON)
    elif _REASON not in _logged:
        _logged.add(_REASON)
        log.warning(
            "using the Python implementation, which is several times slower: %s; reinstall "
            "tandem-kafka, or set %s=python to accept it",
            _REASON,
            _VARIABLE,
        )


def implementation() -> str:
    """Return "native", or why the Python implementation is used instead of the extension."""
    return "native" if native_available else f"Python implementation: {_REASON}"
