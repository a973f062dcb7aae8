"""A real Kafka for tests and benchmarks: its jars, its processes, and ways to prepare topics."""
