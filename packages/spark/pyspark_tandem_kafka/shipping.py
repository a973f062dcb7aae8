"""Pickling of readers and writers, with a clear error for workers without this package.

Spark pickles them with cloudpickle, by reference to their class. A worker without the package would
fail with ModuleNotFoundError inside Spark's unpickling. They are therefore sent as bytes, with a
function that is pickled by value. It first checks for the package, and has the error message.
"""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle


def _unpack(data: bytes) -> Any:
    """Unpickle the object. Uses nothing of this module, which may not be installed."""
    import pickle  # noqa: PLC0415
    import platform  # noqa: PLC0415
    import sys  # noqa: PLC0415

    try:
        import pyarrow as pa  # noqa: F401, PLC0415

        # It imports the package of the class, or raises its ImportError.
        return pickle.loads(data)  # noqa: S301 - Spark's own way
    except ImportError as error:
        name = error.name if isinstance(error, ModuleNotFoundError) else None
        problem = f"{name} is not installed" if name else f"{error}:"
        text = (
            f"{problem} on the worker {platform.node()} for {sys.executable}: install "
            "tandem-kafka[spark] there, set PYSPARK_PYTHON to a Python that has it, or ship it "
            "with the job (spark-submit --py-files or --archives)"
        )
        sentence = type("tandem_kafka", (Exception,), {"__module__": "builtins"})(text)
        names = {"__cause__": property(lambda _: sentence, lambda _, __: None)}
        missing = type("ImportError", (ImportError,), {"__module__": "builtins", **names})
        raise missing(text) from None


# cloudpickle pickles functions of `__main__` by value.
_unpack.__module__ = "__main__"


def imported(module: str) -> Any:
    """Import a module that only workers need, with the same error where a package is missing."""
    return _unpack(f"cimportlib\nimport_module\n(V{module}\ntR.".encode())  # a pickle of the call


class Shipped:
    """Base of the objects that Spark ships to its workers."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack, (cloudpickle.dumps(_Packed(type(self), self.__getstate__())),)


class _Packed:
    """A class and a state; unpickling returns an object of that class."""

    def __init__(self, kind: type, state: Any) -> None:
        self._kind = kind
        self._state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return object.__new__, (self._kind,), self._state
