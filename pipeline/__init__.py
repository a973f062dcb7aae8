"""Runs the job of `examples/pipeline` on a real Kafka, kills it once, and checks every figure."""
