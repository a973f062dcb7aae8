"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""
