"""The readers that are compared: one small module for each client."""
