"""Membership in a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

`membership.py` is the state machine, and `states.py` its table. `leadership.py` has the tasks of
the leader, and `assignor_calls.py` runs the assignors.
"""
