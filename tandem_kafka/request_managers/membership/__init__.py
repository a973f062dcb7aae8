"""Group membership: state machines for both group protocols.

`choice.py` chooses between `kip848`, `classic` and `ungrouped.py`, which have one interface
(`interface.py`). They share `callbacks.py` (of the listener), and the first two `member.py`,
`timers.py` and `heartbeat_schedule.py`. `states.py` has the states of a protocol.
"""
