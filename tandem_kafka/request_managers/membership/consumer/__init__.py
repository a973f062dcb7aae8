"""A member of a KIP-848 group: one heartbeat, and a target to reconcile."""
