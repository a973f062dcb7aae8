"""Membership in a KIP-848 group: ConsumerGroupHeartbeat.

`membership.py` is the state machine, and `states.py` its table. `reconciliation.py` applies target
assignments, `confirmation.py` holds records back after an outage, and `local_assignment.py`
computes assignments for the coordinator.
"""
