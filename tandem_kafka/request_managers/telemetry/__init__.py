"""Pushes the consumer's metrics to brokers that subscribe to them (KIP-714)."""
