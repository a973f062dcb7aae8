"""The network thread: its loop, the processing of events, and the application's handle."""
