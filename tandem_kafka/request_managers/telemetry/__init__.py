"""Pushes the consumer's metrics to brokers that subscribe to them (KIP-714).

`telemetry_request_manager.py` is the state machine. The other modules select, encode and compress.
"""
