"""A real Kafka cluster for tests and benchmarks: jars, processes, and preparation of topics."""
