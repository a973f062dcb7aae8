"""The commands, one a module; `tandem_kafka.cli.program` has the table.

A command has its flags and its output. What several commands do is in `cli` and `cli.records`.
"""
