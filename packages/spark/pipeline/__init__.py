"""Runs the job of `examples/pipeline` on a real broker, kills it once, and checks its output."""
