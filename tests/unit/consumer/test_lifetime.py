"""A dropped consumer is garbage-collected, whatever objects of its owner it has."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, ShareConsumer
from tandem_kafka.config import Config
from tandem_kafka.consumer.parts import for_network_thread
from tandem_kafka.consumer.reading.iteration import Loop
from tandem_kafka.records import join_records
from tandem_kafka.runtime.native import native
from tandem_kafka.state.partition import Changes
from tests.implementations import require_implementation
from tests.unit.records.making import Rec, batch, reader, using
from tests.waiting import wait_until

pytestmark = pytest.mark.real_time

OAUTH = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}


class Owner:
    """Passes its own methods and itself to its consumer."""

    def __init__(
        self,
        given: Callable[[Owner], dict[str, Any]],
        kind: type[KafkaConsumer | ShareConsumer] = KafkaConsumer,
    ) -> None:
        self.consumer: Any = kind(
            bootstrap_servers="127.0.0.1:1",
            bootstrap_timeout_ms=0,
            group_id="group",
            client_id="forgotten",
            **given(self),
        )

    def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
        del topic, headers
        return data

    def committed(self, offsets: Any, error: Any) -> None: ...

    def on_consume(self, records: Any) -> None: ...

    def init(self, metrics: Any) -> None: ...

    def metric_change(self, metric: Any) -> None: ...

    def metric_removal(self, metric: Any) -> None: ...

    def close(self) -> None: ...

    def token(self) -> str:
        return "token"

    def on_partitions_assigned(self, partitions: Any) -> None: ...

    def on_partitions_revoked(self, partitions: Any) -> None: ...


GIVEN: dict[str, Callable[[Owner], dict[str, Any]]] = {
    "nothing": lambda _: {},
    "key_deserializer": lambda owner: {"key_deserializer": owner},
    "value_deserializer": lambda owner: {"value_deserializer": lambda data: (owner, data)},
    "interceptor": lambda owner: {"interceptor_classes": [owner]},
    "metric reporter": lambda owner: {"metric_reporters": [owner]},
    "callback": lambda owner: {"default_offset_commit_callback": owner.committed},
    "token provider": lambda owner: {**OAUTH, "sasl_oauth_token_provider": owner},
}


def forget(owners: list[Owner]) -> None:
    owners.clear()
    gc.collect()


#: What a share consumer has as well.
SHARED = [given for given in GIVEN if given not in {"interceptor", "callback"}]


@pytest.mark.parametrize(
    ("kind", "given"),
    [*((KafkaConsumer, given) for given in GIVEN), *((ShareConsumer, given) for given in SHARED)],
)
def test_a_dropped_consumer_is_collected_and_its_thread_ends(
    kind: type[KafkaConsumer | ShareConsumer],
    given: str,
    network_threads: Callable[[], list[str]],
) -> None:
    owner = Owner(GIVEN[given], kind)
    owners = [owner]
    collected = weakref.ref(owner)
    owner.consumer.subscribe(["orders"], **({"listener": owner} if kind is KafkaConsumer else {}))
    owner.consumer.poll(50)
    del owner
    with pytest.warns(ResourceWarning, match=f"unclosed consumer <{kind.__name__} 'forgotten'"):
        forget(owners)
    assert collected() is None
    wait_until(lambda: not network_threads())


def test_a_token_provider_is_called_through_a_weak_reference() -> None:
    class Provider:
        def token(self) -> str:
            return "token"

    class Extended(Provider):
        def extensions(self) -> dict[str, str]:
            return {"a": "b"}

    class Slotted:
        __slots__ = ()
        token = Provider.token

    for provider, extensions in ((Provider(), {}), (Extended(), {"a": "b"})):
        given = Config.from_options({**OAUTH, "sasl_oauth_token_provider": provider})
        borrowed: Any = for_network_thread(given).sasl_oauth_token_provider
        assert (borrowed.token(), borrowed.extensions()) == ("token", extensions)
        del given
    del provider, borrowed
    given = Config.from_options({**OAUTH, "sasl_oauth_token_provider": Provider()})
    borrowed = for_network_thread(given).sasl_oauth_token_provider
    del given
    gc.collect()
    with pytest.raises(LookupError, match="sasl_oauth_token_provider"):
        borrowed.token()
    slotted = Config.from_options({**OAUTH, "sasl_oauth_token_provider": Slotted()})
    borrowed = for_network_thread(slotted).sasl_oauth_token_provider
    assert borrowed.token() == "token"


class Looping(Loop):
    """Is in the middle of an iteration, and deserializes for it."""

    def _find_feed(self) -> None:
        records = join_records([reader(batch([Rec(b"1"), Rec(b"2")])).take(2)])
        feed = native.Feed(records, None, (self.deserialize, False), self.deserialize)
        changes = Changes()
        self._follow(feed, changes, changes.count)

    def deserialize(self, data: bytes) -> Any:
        return data


class Returning(Looping):
    """Is known to the records that it has returned."""

    def deserialize(self, data: bytes) -> Any:
        return self, data


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", [Looping, Returning])
def test_a_consumer_dropped_during_iteration_is_collected_too(
    kind: type[Looping], count: int
) -> None:
    require_implementation("native")
    looping = kind()
    with using("native"):
        assert [next(looping).offset for _ in range(count)] == list(range(count))
    reference = weakref.ref(looping)
    del looping
    gc.collect()
    assert reference() is None


def test_a_list_of_records_that_contains_itself_is_collected() -> None:
    records = join_records([reader(batch([Rec(b"1")])).take(1)])
    holder = type("Holder", (), {})()
    holder.records = records
    records.append(holder)
    reference = weakref.ref(holder)
    del records, holder
    gc.collect()
    assert reference() is None


def test_a_consumer_may_be_closed_on_its_own_network_thread(
    monkeypatch: pytest.MonkeyPatch, network_threads: Callable[[], list[str]]
) -> None:
    """Garbage is collected on any thread, and may have a finalizer that closes its consumer."""
    consumer = KafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0)
    loop = consumer._core.engine.loop
    called: list[BaseException | None] = []
    run_once = loop.run_once

    def closing() -> None:
        if not called:
            try:
                consumer.close(timeout_ms=0)
                called.append(None)
            except BaseException as error:  # noqa: BLE001 - for the assertion
                called.append(error)
        run_once()

    monkeypatch.setattr(loop, "run_once", closing)
    consumer.wakeup()
    wait_until(lambda: bool(called) and not network_threads())
    assert called == [None]
    assert loop.finished
    consumer.close()
