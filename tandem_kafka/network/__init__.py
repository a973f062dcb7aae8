"""The network thread: its loop, the client and the sockets."""
