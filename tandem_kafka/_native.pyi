"""Types of the native extension (rust/)."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar

from typing_extensions import Buffer

from tandem_kafka.types import ConsumerRecord

ABI: int

_T = TypeVar("_T")
_ChunkT = TypeVar("_ChunkT")
_Derived = TypeVar("_Derived", bound=ConsumerRecord[Any, Any])

class Frame(Buffer):
    """A response of a broker without its length prefix; read-only bytes.

    Attributes:
        elsewhere: Size of the record batches that were received into separate buffers.
    """

    elsewhere: int
    def __len__(self) -> int: ...

class Batches(Buffer):
    """The record batches of one fetched partition, decoded or not."""

    legacy: bool
    @staticmethod
    def from_bytes(
        data: Buffer, aborted: Sequence[tuple[int, int]], high_watermark: int
    ) -> Batches: ...
    def __len__(self) -> int: ...

class RecordReader:
    """See `tandem_kafka.records.decoder.RecordReader`."""

    topic: str
    partition: int
    end_offset: int
    next_offset: int
    leader_epoch: int
    exhausted: bool
    taken_bytes: int
    def __init__(
        self,
        topic: str,
        partition: int,
        fetch_offset: int,
        batches: Batches,
        *,
        max_leader_epoch: int,
        read_committed: bool,
        check_crcs: bool,
        max_decompressed_batch_bytes: int,
        max_record_headers: int,
    ) -> None: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def open_bytes(self) -> int: ...
    def take(self, max_records: int, max_bytes: int | None = None) -> Records: ...

class Records(list[ConsumerRecord]):
    """Records of one partition, created on access. It behaves like a list, but is none."""

    @staticmethod
    def join(parts: Sequence[Iterable[ConsumerRecord]]) -> Records: ...
    def part(self, start: int, stop: int) -> Self: ...
    def derived(
        self, start: int, stop: int, kind: type[_Derived], origin: object
    ) -> list[_Derived]: ...
    def before(self, offset: int) -> int: ...
    def place_of(self, index: int) -> tuple[int, int]: ...

class Feed:
    """See `tandem_kafka.consumer.reading.iteration.Feed`."""

    @property
    def given(self) -> int: ...
    @property
    def stopped(self) -> bool: ...
    def __init__(
        self,
        records: Sequence[ConsumerRecord],
        key: tuple[Callable[..., Any], bool] | None = None,
        value: tuple[Callable[..., Any], bool] | None = None,
        error_of: Callable[[str, Exception, ConsumerRecord], Exception] | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def place_of(self, index: int) -> tuple[int, int]: ...
    def stop(self) -> None: ...

class Accepting:
    """See `tandem_kafka.consumer.share.record.PythonAccepting`."""

    def accept(self) -> None: ...
    @staticmethod
    def _learn(
        run: type, partition: type, owner: type, process: object, not_fed: object
    ) -> None: ...

class Loop:
    """See `tandem_kafka.consumer.reading.iteration.PythonLoop`."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> ConsumerRecord: ...
    def _find_feed(self) -> None: ...
    def _follow(
        self,
        feed: Feed,
        changes: object,
        seen: object,
        until: tuple[Callable[[], int], int] | None = None,
    ) -> None: ...

def deserialize(
    records: Records,
    key: tuple[Callable[..., Any], bool] | None,
    value: tuple[Callable[..., Any], bool] | None,
) -> tuple[Records, tuple[str, Exception] | None]: ...
def run(call: Coroutine[Any, Any, _T]) -> _T: ...
def decode_fetch_response(
    frame: Buffer, version: int
) -> tuple[int, int, int, tuple[tuple[Any, ...], ...], tuple[tuple[Any, ...], ...]]: ...

class ArrowArray:
    """Exports an array by `__arrow_c_array__`; one of structs is a record batch."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...
    def __len__(self) -> int: ...

class ArrowType:
    """Exports a type by `__arrow_c_schema__`."""

    def __arrow_c_schema__(self) -> object: ...

class ColumnDecoder:
    """See rust/decode/; arguments are exported by the Arrow PyCapsule protocol."""

    @staticmethod
    def json(schema: object) -> ColumnDecoder: ...
    @staticmethod
    def infer_json(column: object, samples: int) -> ColumnDecoder: ...
    @staticmethod
    def avro(
        reader: Sequence[str],
        writers: Mapping[int | bytes, Sequence[str]] | None,
        max_precision: int,
    ) -> ColumnDecoder: ...
    @staticmethod
    def schema_ids(column: object, headers: object = None) -> list[int | bytes]: ...
    @staticmethod
    def protobuf(
        descriptors: bytes,
        message: str,
        framed: bool,
        files: Mapping[int | bytes, bytes] | None,
        nanoseconds: bool,
        struct_as_json: bool,
        as_spark: bool,
    ) -> ColumnDecoder: ...
    @staticmethod
    def text() -> ColumnDecoder: ...
    @property
    def data_type(self) -> ArrowType: ...
    def left_out(self, schema_id: int | bytes) -> list[str]: ...
    def decode(
        self, column: object, headers: object = None
    ) -> tuple[ArrowArray, list[tuple[int, str]]]: ...

def to_arrow(
    sequences: Sequence[Sequence[ConsumerRecord]], columns: tuple[str, ...], *, binary_view: bool
) -> ArrowArray: ...

class TlsConfig:
    """TLS for all connections of a consumer; raises `ValueError` for what rustls lacks."""

    def __init__(
        self,
        *,
        authorities: bytes | None,
        chain: bytes | None,
        key: bytes | None,
        password: str | None,
        revoked: bytes | None,
        check_hostname: bool,
        ciphers: Sequence[str] | None,
    ) -> None: ...

class Notifier:
    """A count that threads and tasks wait for."""

    def __init__(self) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    def notify(self) -> bool: ...
    def wait(self, seen: int, timeout_s: float) -> None: ...
    def open_alarm(self) -> int: ...
    def close_alarm(self) -> None: ...
    def arm(self) -> None: ...
    def disarm(self) -> None: ...
    def quiet(self) -> None: ...

class UsualCase:
    """The usual case of `FetchCollector.collect` in one step; it calls that in other cases."""

    def __init__(
        self, classes: Mapping[str, type], no_starts: Mapping[Any, Any], fetching: object
    ) -> None: ...
    def collect(self, collector: object, max_records: int) -> Any: ...
    def open_taken(self, collector: object) -> None: ...

class UsualReading:
    """The usual case of methods of `Reading` in one step; it calls those in other cases."""

    def __init__(
        self,
        case: UsualCase,
        reading: object,
        core: object,
        poller: object,
        collector: object,
        commits: object,
        runs: object,
        process: object,
        now_ns: Callable[[], int],
        iterated: type,
        run: int,
        idle_ms: float | None,
        holding: type,
        intercepts: bool,
        make_feed: Callable[..., object] | None,
    ) -> None: ...
    def poll(self, timeout_ms: float, max_records: int | None) -> tuple[Any, Any]: ...
    def find_feed(self, follow: Callable[..., None]) -> bool: ...
    def begin_poll(
        self,
        timeout_ms: float,
        max_records: int | None,
        suspended: bool,
    ) -> TaskCall | None: ...
    def begin_feed(
        self,
        follow: Callable[..., None],
        suspended: bool,
    ) -> TaskCall | None: ...
    def drop_returned(self) -> bool: ...

class TaskCall:
    """What a task does until it need not wait any more; see consumer/aio/tasks.py."""

    suspended: bool
    result: Any
    def step(self) -> int | None: ...
    def hand_over(self) -> tuple[Any, int]: ...
    def leave(self) -> None: ...

class FetchProgress:
    """See state/progress.py."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    read_ahead: int
    buffered_bytes: int
    released_bytes: int
    def __init__(self, *arguments: object) -> None: ...

class ChunkQueue(Generic[_ChunkT]):
    """See state/fetch_buffer.py."""

    def __init__(self, chunk: type[_ChunkT]) -> None: ...
    @property
    def added(self) -> int: ...
    @property
    def added_bytes(self) -> int: ...
    released_bytes: int
    @property
    def reserved_bytes(self) -> int: ...
    @property
    def repeated(self) -> tuple[int, int, int]: ...
    def reserve(self, size: int) -> None: ...
    def append(self, chunk: _ChunkT, size: int) -> None: ...
    def first(self) -> _ChunkT | None: ...
    def take(self) -> _ChunkT | None: ...
    def __len__(self) -> int: ...

_Sizes: TypeAlias = tuple[int, int, int]

class StandingFetch:
    """See rust/src/standing/bindings.rs."""

    def __init__(
        self,
        *,
        queue: ChunkQueue[_ChunkT],
        notifier: Notifier,
        version: int,
        correlation_id: int,
        client_id: str | None,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        read_committed: bool,
        session_id: int,
        session_epoch: int,
        rack: str,
        targets: Sequence[tuple[object, object, str, bytes, int, int, int, int, int, int, object]],
        smallest_bytes: int,
        largest_bytes: int,
        room: int,
        lasts_ms: int,
        reports: bool,
    ) -> None: ...
    def end(self) -> tuple[int, list[tuple[int, int, int, int | None]]]: ...
    def respond(self, frame: bytes, took_ms: int | None = None) -> bytes | None: ...
    def resume(self, held_ms: int) -> bytes | None: ...
    def hand_over(self) -> tuple[bytes, int] | None: ...
    def progress(self) -> tuple[int, int, int | None]: ...
    def take_counts(
        self,
    ) -> tuple[_Sizes, _Sizes, _Sizes, _Sizes, list[tuple[str, _Sizes]]]: ...

class Selector:
    """Connections by number. Only `wakeup` may be called from more than one thread."""

    def __init__(
        self,
        *,
        receive_message_max_bytes: int,
        send_buffer_bytes: int | None,
        receive_buffer_bytes: int | None,
        socket_options: Sequence[tuple[int, int, bytes]],
        receive_budget_bytes: int,
        tls: TlsConfig | None,
        read_committed: bool,
        check_crcs: bool,
        max_decompressed_batch_bytes: int,
        max_record_headers: int,
        decode_ahead_bytes: int,
    ) -> None: ...
    @property
    def turns(self) -> int: ...
    @property
    def beats(self) -> int: ...
    def connect(self, host: str, ip: str, port: int, location: str) -> int: ...
    def set_tls(self, tls: TlsConfig) -> None: ...
    def send(self, connection: int, frame: bytes | bytearray) -> None: ...
    def keep_alive(
        self, connection: int, frame: bytes | bytearray, period_ms: int, left_ms: int
    ) -> None: ...
    def poll(self, timeout_ms: int) -> list[tuple[int, int, Frame | str | int | None]]: ...
    def wakeup(self) -> None: ...
    def received_bytes(self, connection: int) -> int: ...
    def repeat_fetches(self, connection: int, standing: StandingFetch) -> None: ...
    def disconnect(self, connection: int) -> None: ...
    def close(self) -> None: ...
