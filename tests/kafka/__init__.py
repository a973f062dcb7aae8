"""What the tests need of a real cluster besides brokers: logins, tokens, assignors in Java."""
