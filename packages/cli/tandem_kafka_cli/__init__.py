"""The command `tandem-kafka`: reads topics, shows groups and lag, moves offsets (extra `cli`).

`program.py` has the table of the commands. A command is imported when it is called, and imports the
consumer when it needs it, so that `--help` and completion respond at once.
"""
