"""Group membership: state machines for both group protocols.

`choice.py` chooses between `kip848`, `classic` and `ungrouped.py`, which have one interface
(`interface.py`). They share `callbacks.py` (of the listener), `timers.py` and `state_machine.py`.
"""
