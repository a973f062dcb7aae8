"""What a process pays to begin: imports, a consumer, its first record, and its end."""
