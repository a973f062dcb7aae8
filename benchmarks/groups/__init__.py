"""Consumer groups: the time to the first record, and the pause when another member joins."""
