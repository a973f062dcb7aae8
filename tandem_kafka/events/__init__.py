"""Events between the two threads."""
