"""The tests of all packages have the same rules, and the same brokers."""

pytest_plugins = ["tests.plugin", "tests.broker_fixtures"]
