"""The application thread: `KafkaConsumer` and its parts."""
