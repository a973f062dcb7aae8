"""The tests of other clients, with this consumer in the place of theirs."""
