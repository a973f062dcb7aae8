"""The network thread: its loop, what events set going, and the application's handle to both."""
