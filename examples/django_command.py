"""A management command of Django that reads a topic into a model.

Copy it to `shop/management/commands/consume_orders.py`, where `shop` is your app. The model:

    class Order(models.Model):
        number = models.BigIntegerField(primary_key=True)
        customer = models.CharField(max_length=100)
        amount = models.FloatField()

    pip install tandem-kafka django
    python manage.py consume_orders
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand
from django.db import close_old_connections, transaction
from shop.models import Order

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


def store(records: Iterable[ConsumerRecord]) -> None:
    """Store orders. Records may come again after a crash or a rebalance: an upsert repeats them."""
    for record in records:
        order = json.loads(record.value)
        Order.objects.update_or_create(
            number=order["order"],
            defaults={"customer": order["customer"], "amount": order["amount"]},
        )


class Command(BaseCommand):
    """`python manage.py consume_orders`."""

    help = "Reads orders from Kafka into the database until Ctrl-C or SIGTERM."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Read, store, commit."""
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        with KafkaConsumer(
            os.environ.get("TOPIC", "orders"),
            bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
            group_id=os.environ.get("GROUP", "example"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            while not stopping.is_set():
                batch = consumer.poll(timeout_ms=1_000)
                # Django does this for a request. Without it, a connection that the database has
                # closed meanwhile fails here.
                close_old_connections()
                with transaction.atomic():
                    for records in batch.values():
                        store(records)
                try:
                    consumer.commit()  # after the end of the transaction, never inside
                except (CommitFailedError, KafkaTimeoutError) as error:
                    self.stderr.write(f"not committed: {error}")
