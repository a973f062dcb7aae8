"""How long partitions are not read when brokers or links fail, compared with librdkafka."""
