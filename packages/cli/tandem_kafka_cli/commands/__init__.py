"""The commands, one a module; `tandem_kafka_cli.program` has the table.

A command has its flags and its output. Code that several commands share is in `cli` and
`cli.records`.
"""
