"""Share groups: our `ShareConsumer`, and the preview of confluent-kafka."""
