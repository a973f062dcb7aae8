"""The network client: connections, transports and requests."""
