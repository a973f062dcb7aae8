"""The commands, one a module; `tandem_kafka.cli.program` has the table."""
