"""A member for the demo that misses a record, as `tandem_kafka_cli.demo.consume` must never do."""

from __future__ import annotations

from tandem_kafka_cli.demo.consume import Consume, main


class Forgetful(Consume):
    """Skips one record of the first partition that it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__(bootstrap, group, topic)
        self._missed = False

    def read(self) -> None:
        super().read()
        for each in self.consumer.assignment():
            position = self.consumer.position(each)
            if position and not self._missed:
                self._missed = True
                self.consumer.seek(each, position + 1)


if __name__ == "__main__":
    main(Forgetful)
