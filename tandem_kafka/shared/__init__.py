"""The only mutable state that both threads use; each field has one writer, named beside it."""
