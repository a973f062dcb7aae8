"""The compared readers: one module for each client."""
