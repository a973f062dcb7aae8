"""What all consumers with spans and metrics have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Final, TypeVar

from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, TracerProvider

from tandem_kafka.config import sealed
from tandem_kafka.observability.telemetry import Outcomes, Telemetry
from tandem_kafka.runtime import Stopwatch
from tandem_kafka.runtime.callers import is_async
from tandem_kafka.types import ConsumerRecord

#: A context without a span.
_ROOT: Final = Context()

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Traced:
    """A consumer that is traced; the class of the consumer follows."""

    def __init__(
        self,
        *topics: str,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        **options: Any,
    ) -> None:
        options = sealed(options)
        self._telemetry = Telemetry(tracer_provider, meter_provider)
        super().__init__(*topics, **options)

    def process(
        self, records: ConsumerRecord[Any, Any] | Sequence[ConsumerRecord[Any, Any]]
    ) -> AbstractContextManager[Span]:
        """Return a ``with`` block for the work on a record or a batch.

        Its span ``process`` is the current one inside of the block, and has links to the spans that
        created the records.
        """
        return self._telemetry.process(_batch(records))

    def traced(self, handle: Handler) -> Handler:
        """Return a function of one record or batch that runs inside of ``process()``.

        Use it for handlers of workers; those of asyncio take ``async def`` functions. Each span is
        the root of a trace: tasks inherit the span in which ``run()`` was called, which would
        otherwise be the parent of all.
        """
        if is_async(handle):

            @wraps(handle)
            async def run_async(records: Any, *rest: Any) -> Any:
                with self._telemetry.process(_batch(records), _ROOT):
                    return await handle(records, *rest)

            return run_async  # type: ignore[return-value]

        @wraps(handle)
        def run(records: Any, *rest: Any) -> Any:
            with self._telemetry.process(_batch(records), _ROOT):
                return handle(records, *rest)

        return run  # type: ignore[return-value]


def _batch(records: Any) -> Any:
    return [records] if hasattr(records, "offset") else records


@contextmanager
def committing(telemetry: Telemetry, outcomes: Outcomes) -> Iterator[Outcomes]:
    """Report a commit of partitions; the block may change what became of each."""
    watch = Stopwatch()
    failure: BaseException | None = None
    try:
        yield outcomes
    except BaseException as error:
        failure = error
        raise
    finally:
        telemetry.committed(outcomes, failure, watch)
