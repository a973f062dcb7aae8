"""Consumer groups: how soon a member reads, and what it notices when another one joins."""
