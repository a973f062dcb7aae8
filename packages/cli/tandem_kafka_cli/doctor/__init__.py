"""The examination of a connection, step by step, from the broker's name to the group's ACLs.

`examination.py` has the order of the steps. Each step yields findings; a failed step ends what
depends on it.
"""
