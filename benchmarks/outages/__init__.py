"""How long partitions are silent when brokers or links fail, beside librdkafka."""
