"""Clients of all kinds on the simulated cluster, and the same on a real one."""
