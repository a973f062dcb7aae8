"""The application thread's side: the facade that users call."""
